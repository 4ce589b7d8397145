#!/usr/bin/env bash
# The watchdog of QEMU's Cortex-A9 resets nothing, and one write to its control register turns it off.
#
# Version: Debian's qemu-system-arm 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the reference manual of the Cortex-A9 MPCore (chapter 4): once its mode bit is set,
# the watchdog resets the processor when its count ends, and says so in its reset status register. Only two magic
# numbers in the disable register, in order, bring it back to the mode of a timer.
# Seen: on the board xilinx-zynq-a9 the mode bit is set when it is read, the count ends, the interrupt flag of the timer
# mode comes, and the processor goes on with the reset status clear. Clearing the mode bit, or the whole control
# register, works without the magic numbers.
#
# For a user: a test that a hung program is reset cannot pass on this board, and a program that loses its watchdog by a
# stray write is not found out. Test the reset with another watchdog, or on the machine.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Board

WATCHDOG = 0xF8F00620
LOAD, COUNTER, CONTROL, STATUS, RESET_STATUS, DISABLE = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14
ENABLE, WATCHDOG_MODE = 1 << 0, 1 << 3
with Board("xilinx-zynq-a9", 0x00100000, False) as board:
    read = lambda register: board.read(WATCHDOG + register)
    write = lambda register, value: board.write(WATCHDOG + register, value)
    write(LOAD, 1_000_000)
    write(CONTROL, WATCHDOG_MODE | ENABLE)
    started = read(CONTROL), read(COUNTER)
    # At 100 MHz the count ends after 10 ms. `wait` returns only if the processor comes to the end of its loop.
    board.wait(50_000)
    ended = read(CONTROL), read(COUNTER), read(STATUS), read(RESET_STATUS)
    write(STATUS, 1)
    write(LOAD, 1_000_000_000)
    write(CONTROL, ENABLE)
    left = read(CONTROL)
    write(CONTROL, WATCHDOG_MODE | ENABLE)
    again = read(CONTROL)
    write(CONTROL, 0)
    off, count = read(CONTROL), read(COUNTER)
    board.wait(1000)
    stopped = count == read(COUNTER)
print(f"started: control {started[0]:#x}, count {started[1]}")
print(f"50 ms later: control {ended[0]:#x}, count {ended[1]}, interrupt {ended[2]}, reset status {ended[3]}")
print(f"control after the mode bit is written as 0: {left:#x}, as 1: {again:#x}, after 0: {off:#x}, stopped: {stopped}")
on = WATCHDOG_MODE | ENABLE
as_described = started[0] == on and started[1] > 0 and ended == (on, 0, 1, 0)
as_described &= (left, again, off, stopped) == (ENABLE, on, 0, True)
sys.exit(0 if as_described else 1)
PYTHON
