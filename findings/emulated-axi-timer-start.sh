#!/usr/bin/env bash
# QEMU's Xilinx AXI timer begins at its load value whenever it is enabled, and its bit for both timers starts none.
#
# Version: Debian's qemu-system-misc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the product guide of the AXI Timer (PG079): clearing the enable bit halts the
# counter, and setting it goes on from there; only the load bit brings the load value. The bit ENALL of either control
# register enables both timers, and shows in both.
# Seen: on the board petalogix-ml605 a timer that is stopped in mid-count begins at its load value when it is enabled
# again, without the load bit. ENALL is kept in the register that it is written to, the enable bits stay clear, and the
# second timer stays at 0, where the load bit has not brought the load value either.
#
# For a user: a count that is paused is lost on this board, and timers that are to start together do not. Keep sums in
# software, and enable the timers one by one.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-microblazeel
package=qemu-system-misc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import MicroBlazeBoard

TIMERS = 0x83C00000
CONTROL, LOAD_VALUE, COUNTER, SECOND = 0x00, 0x04, 0x08, 0x10
DOWN, LOAD, ENABLE, ENABLE_ALL = 1 << 1, 1 << 5, 1 << 7, 1 << 10
# A count of ten seconds at 100 MHz.
COUNT = 1_000_000_000


def load(timer):
    write(timer + LOAD_VALUE, COUNT)
    write(timer + CONTROL, DOWN | LOAD)
    write(timer + CONTROL, DOWN)


with MicroBlazeBoard("petalogix-ml605", 0x50000000) as board:
    read = lambda register: board.read(TIMERS + register)
    write = lambda register, value: board.write(TIMERS + register, value)
    load(0)
    write(CONTROL, DOWN | ENABLE)
    board.wait(20_000)
    write(CONTROL, DOWN)
    stopped = read(COUNTER)
    write(CONTROL, DOWN | ENABLE)
    enabled = read(COUNTER)

    write(CONTROL, 0)
    load(0)
    load(SECOND)
    loaded = read(SECOND + COUNTER)
    write(CONTROL, DOWN | ENABLE_ALL)
    controls = read(CONTROL), read(SECOND + CONTROL)
    before = read(SECOND + COUNTER)
    board.wait(1000)
    after = read(SECOND + COUNTER)
    write(SECOND + CONTROL, DOWN | ENABLE)
    board.wait(1000)
    single = read(SECOND + COUNTER)
print(f"timer 1, load value {COUNT}: stopped at {stopped}, enabled again at {enabled}")
print(f"both: controls {controls[0]:#x} and {controls[1]:#x}; timer 2 loaded {loaded}, started {before},"
      f" 1 ms later {after}; enabled alone, after 1 ms {single}")
as_described = stopped < COUNT - 1_000_000 and enabled == COUNT
as_described &= controls == (DOWN | ENABLE_ALL, DOWN) and loaded == before == after == 0 < single < COUNT
sys.exit(0 if as_described else 1)
PYTHON
