#!/usr/bin/env bash
# Timer 1 of QEMU's 6522 VIA does not interrupt in one-shot mode when its count ends.
#
# Version: Debian's qemu-system-misc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: timer 1, loaded once in one-shot mode and let through by the interrupt enable register,
# interrupts the processor when its count ends, as the data sheet of the R6522 says of both modes.
# Seen: on the board q800 the free-running mode does so, and so does timer 2. In the one-shot mode of timer 1 no
# interrupt comes while the processor waits, for 30 times as long as the count. The flag register then shows timer 1 all
# the same, and that some interrupt is due.
#
# For the author of a driver: on this board arm one event with timer 2, which has only that mode, or with the
# free-running mode, and stop it in its interrupt. A driver that polls sees no difference.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-m68k
package=qemu-system-misc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import M68kBoard

VIA = 0x50F00000
TIMER_1_LOW, TIMER_1_HIGH, TIMER_2_LOW, TIMER_2_HIGH = 0x800, 0xA00, 0x1000, 0x1200
MODE, FLAGS, ENABLE = 0x1600, 0x1A00, 0x1C00
SET, TIMER_1, TIMER_2, FREE_RUNNING = 0x80, 0x40, 0x20, 0x40
# The vector of interrupts of level 6.
VECTOR = 0x78
as_described = True
for name, mode, interrupt, low, high, expected in [
    ("timer 1, free-running", FREE_RUNNING, TIMER_1, TIMER_1_LOW, TIMER_1_HIGH, 1),
    ("timer 1, one-shot", 0, TIMER_1, TIMER_1_LOW, TIMER_1_HIGH, 0),
    ("timer 2, one-shot", 0, TIMER_2, TIMER_2_LOW, TIMER_2_HIGH, 1),
]:
    with M68kBoard("q800", 0x2000) as board:
        board.take_interrupts(VECTOR)
        write = lambda register, value: board.write(VIA + register, value, 1)
        write(ENABLE, SET | interrupt)
        write(MODE, mode)
        # A count of 1.3 ms.
        write(low, 0xE8)
        write(high, 0x03)
        board.wait(20_000)
        early = board.interrupts()
        board.wait(20_000)
        taken = board.interrupts()
        flags = board.read(VIA + FLAGS, 1)
    print(f"{name}: interrupts after 20 ms {early}, after 40 ms {taken}, then flags {flags:#04x}")
    as_described &= (early, taken) == (expected, expected) and flags & (SET | interrupt) == SET | interrupt
sys.exit(0 if as_described else 1)
PYTHON
