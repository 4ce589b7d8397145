#!/usr/bin/env bash
# QEMU's SP804 and CMSDK dual timer stay halted when a new load value is written after a one-shot count.
#
# Version: Debian's qemu-system-arm 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: a one-shot count that has reached zero begins again when the load register is written.
# The reference manuals of both devices name that as one of two ways to go on, and drivers arm the next event so.
# Seen: on the boards versatilepb and mps2-an385 the value register shows the new load value and stays there; no
# interrupt comes, and the control register still says enabled and one-shot. Writing the control register again, with
# the same value, starts the count.
#
# For the author of a driver: write the control register behind the load register, which real devices bear as well.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Board

LOAD, VALUE, CONTROL, CLEAR, RAW = 0x00, 0x04, 0x08, 0x0C, 0x10
ENABLED_ONE_SHOT_32_BITS = 0x80 | 0x20 | 0x02 | 0x01
as_described = True
for machine, ram, thumb, timer, counts_a_microsecond in [
    ("versatilepb", 0x10000, False, 0x101E2000, 1),
    ("mps2-an385", 0x20000000, True, 0x40002000, 25),
]:
    with Board(machine, ram, thumb) as board:
        read = lambda register: board.read(timer + register)
        write = lambda register, value: board.write(timer + register, value)
        count = 100 * counts_a_microsecond
        write(LOAD, count)
        write(CONTROL, ENABLED_ONE_SHOT_32_BITS)
        board.wait(1000)
        first = (read(VALUE), read(RAW))
        write(CLEAR, 1)
        write(LOAD, count)
        board.wait(1000)
        second = (read(VALUE), read(RAW))
        control = read(CONTROL)
        write(CONTROL, control)
        board.wait(1000)
        third = (read(VALUE), read(RAW))
    print(f"{machine}: value and interrupt after the first count {first}, after a new load {second},"
          f" after the control register {control:#x} was written again {third}")
    as_described &= (first, second, third) == ((0, 1), (count, 0), (0, 1))
    as_described &= control == ENABLED_ONE_SHOT_32_BITS
sys.exit(0 if as_described else 1)
PYTHON
