#!/usr/bin/env bash
# The counter of QEMU's STM32F2 timer goes on beyond its reload value, and while the timer is disabled.
#
# Version: Debian's qemu-system-arm 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: the counter of TIM2 runs from 0 to the auto-reload value and begins again at 0, stands
# still while the enable bit is clear, and stops after one period in one-pulse mode.
# Seen: on the board netduino2, with a reload value of 1,000, the counter shows some ten thousands, and update events
# come as one expects. It goes on while the enable bit is clear, and in one-pulse mode, whose events repeat.
#
# For a user: a clock that joins the update events with the counter, as many do, is wrong on this board by whole
# periods. Take the counter modulo the period, or another board.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Board

TIMER = 0x40000000
CONTROL, INTERRUPTS, STATUS, EVENT, COUNTER, PRESCALER, RELOAD = 0x00, 0x0C, 0x10, 0x14, 0x24, 0x28, 0x2C
ENABLE, ONE_PULSE, UPDATE = 1, 8, 1
with Board("netduino2", 0x20000000) as board:
    read = lambda register: board.read(TIMER + register)
    write = lambda register, value: board.write(TIMER + register, value)
    write(PRESCALER, 99)
    write(RELOAD, 1000)
    write(EVENT, UPDATE)
    write(STATUS, 0)
    write(INTERRUPTS, UPDATE)
    write(CONTROL, ENABLE)
    board.wait(5000)
    running, events = read(COUNTER), read(STATUS) & UPDATE
    write(CONTROL, 0)
    disabled = read(COUNTER)
    board.wait(1000)
    later = read(COUNTER)
with Board("netduino2", 0x20000000) as board:
    write(PRESCALER, 99)
    write(RELOAD, 1000)
    write(EVENT, UPDATE)
    write(STATUS, 0)
    write(INTERRUPTS, UPDATE)
    write(CONTROL, ENABLE | ONE_PULSE)
    pulses = 0
    for _ in range(3):
        board.wait(2000)
        pulses += read(STATUS) & UPDATE
        write(STATUS, 0)
    still_enabled = read(CONTROL) & ENABLE
print(f"counter with a reload value of 1000: {running}, update events: {events}")
print(f"disabled: {disabled}, 1 ms later {later}")
print(f"one-pulse mode: {pulses} periods, enabled behind them: {still_enabled}")
as_described = running > 2000 and events == 1 and later > disabled and pulses > 1 and still_enabled == 1
sys.exit(0 if as_described else 1)
PYTHON
