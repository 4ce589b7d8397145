#!/usr/bin/env bash
# The compare match timer of QEMU's RX62N never counts, and its control register cannot be written.
#
# Version: Debian's qemu-system-misc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the hardware manual of the RX62N (chapter on the compare match timer): the start bit
# lets a channel count from 0 to the compare constant and begin again. Its control register holds the clock and the
# interrupt enable bit.
# Seen: on the board gdbsim-r5f562n8 both channels of unit 0 stay at the count that they are given, with all four
# clocks. The control register reads as the start register, and what is written to it is lost.
#
# For a user: the timer of this board that works is the 8-bit one.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-rx
package=qemu-system-misc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import RxBoard

UNIT = 0x00088000
START, CHANNELS = 0x0, (0x2, 0x8)
CONTROL, COUNT, CONSTANT = 0x0, 0x2, 0x4
RESERVED, INTERRUPT = 1 << 7, 1 << 6
as_described = True
with RxBoard("gdbsim-r5f562n8", 0x1000) as board:
    read = lambda register: board.read(UNIT + register, 2)
    write = lambda register, value: board.write(UNIT + register, value, 2)
    for clock in range(4):
        write(START, 0)
        for channel in CHANNELS:
            write(channel + CONTROL, RESERVED | INTERRUPT | clock)
            write(channel + COUNT, 5)
            write(channel + CONSTANT, 0xFFFF)
        write(START, 3)
        board.wait(1000)
        seen = [(read(channel + COUNT), read(channel + CONSTANT), read(channel + CONTROL)) for channel in CHANNELS]
        print(f"clock {clock}, start {read(START)}: count, constant and control {seen}")
        as_described &= read(START) == 3 and seen == [(5, 0xFFFF, 3)] * 2
sys.exit(0 if as_described else 1)
PYTHON
