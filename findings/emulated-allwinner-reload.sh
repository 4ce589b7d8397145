#!/usr/bin/env bash
# The reload bit of QEMU's Allwinner A10 timer stays set, and a new interval takes effect at once without it.
#
# Version: Debian's qemu-system-arm 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: a driver writes the interval, sets the reload bit, and waits until the timer has loaded
# the interval and cleared the bit, as the manual of the processor says. An interval that is written while the timer
# counts, and without that bit, is loaded where the count in progress ends.
# Seen: on the board cubieboard the bit reads 1 for ever, before and behind the end of the count. A new interval without
# the bit is counted from at once.
#
# For the author of a driver: bound the wait for the bit, and do not rely on the count in progress on this board.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Board

TIMER = 0x01C20C00
STATUS, CONTROL, INTERVAL, COUNT = 0x04, 0x10, 0x14, 0x18
ENABLE, RELOAD, CRYSTAL = 1 << 0, 1 << 1, 1 << 2
A_MILLISECOND = 24_000
with Board("cubieboard", 0x40000000, False) as board:
    read = lambda register: board.read(TIMER + register)
    write = lambda register, value: board.write(TIMER + register, value)
    write(0, 1)
    write(INTERVAL, 100 * A_MILLISECOND)
    write(CONTROL, CRYSTAL | RELOAD | ENABLE)
    board.wait(1000)
    begun = read(CONTROL) & RELOAD, read(COUNT)
    board.wait(150_000)
    ended = read(CONTROL) & RELOAD, read(STATUS) & 1
    write(CONTROL, CRYSTAL | ENABLE)
    bit = read(CONTROL) & RELOAD
    write(INTERVAL, 10_000 * A_MILLISECOND)
    count = read(COUNT)
print(f"1 ms after the start: reload bit {begun[0] // RELOAD}, count {begun[1]} of {100 * A_MILLISECOND}")
print(f"after 151 ms: reload bit {ended[0] // RELOAD}, interrupt {ended[1]}")
print(f"interval of 10 s written with reload bit {bit // RELOAD}: count {count}")
as_described = begun[0] and ended == (RELOAD, 1) and not bit and count > 9_000 * A_MILLISECOND
sys.exit(0 if as_described else 1)
PYTHON
