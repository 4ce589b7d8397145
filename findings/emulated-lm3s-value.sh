#!/usr/bin/env bash
# The value register of QEMU's LM3S general-purpose timer always reads 0.
#
# Version: Debian's qemu-system-arm 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: the register GPTMTAR of timer 0 shows what is left of the count, and it falls.
# Seen: on the board lm3s6965evb, with 12,000,000 loaded and the timer running, it reads 0 at once and later, although
# the interrupt of a shorter count comes. A timer in the mode of a real-time clock reads 0 as well.
#
# For a user: code that computes the time to the next event, or polls until the value has fallen, sees an event that is
# due at all times. Use SysTick, whose value register counts on this board.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Board

CLOCKS = 0x400FE104
TIMER = 0x40030000
CONFIGURATION, MODE, CONTROL, RAW, CLEAR, LOAD, VALUE = 0x00, 0x04, 0x0C, 0x1C, 0x24, 0x28, 0x48
with Board("lm3s6965evb", 0x20000000) as board:
    read = lambda register: board.read(TIMER + register)
    write = lambda register, value: board.write(TIMER + register, value)
    # Timers have a clock; one-shot of 32 bits.
    board.write(CLOCKS, 0xFFFFFFFF)
    write(CONFIGURATION, 0)
    write(MODE, 1)
    write(LOAD, 12_000_000)
    write(CONTROL, 1)
    values = [read(VALUE)]
    for _ in range(3):
        board.wait(100)
        values.append(read(VALUE))
    early = read(RAW) & 1
    write(CONTROL, 0)
    write(LOAD, 1200)
    write(CONTROL, 1)
    board.wait(5000)
    due = read(RAW) & 1
print(f"values of a timer that runs for a second: {values}, interrupt: {early}; of a short one: {due}")
sys.exit(0 if values == [0, 0, 0, 0] and early == 0 and due == 1 else 1)
PYTHON
