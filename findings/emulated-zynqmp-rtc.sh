#!/usr/bin/env bash
# The real-time clock of QEMU's Zynq UltraScale+ board cannot be set, and has neither an alarm nor a tick.
#
# Version: Debian's qemu-system-arm 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by AMD's manuals of the device (UG1085, Real-time Clock; UG1087, module RTC): the time
# written to SET_TIME_WRITE is the current time a second later. SECONDS in RTC_INT_STATUS rises each second, ALARM when
# the time is the one in the register ALARM, both without their interrupts. CURRENT_TICK counts the cycles of a second.
# Seen on the board xlnx-zcu102: CURRENT_TIME counts seconds, and goes on from its own time after SET_TIME_WRITE. The
# register ALARM keeps the value, and no flag has risen when that second is over, with interrupts enabled or without.
# CURRENT_TICK stays 0, after a calibration for 32768 Hz as well.
#
# For the author of a driver: reading the time is all that can be tested on this board.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-aarch64
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Arm64Board

RTC = 0xFFA60000
SET_TIME_WRITE, CALIB_WRITE, CURRENT_TIME, CURRENT_TICK, ALARM = 0x00, 0x08, 0x10, 0x14, 0x18
INT_STATUS, INT_MASK, INT_EN, CONTROL = 0x20, 0x24, 0x28, 0x40
# The clock counts the board's time. An instruction takes 1024 ns, so that seconds are soon over.
OPTIONS = ["-icount", "shift=10", "-rtc", "base=2026-11-29T06:00:00,clock=vm"]
with Arm64Board("xlnx-zcu102", 0x10000, OPTIONS) as board:
    read = lambda register: board.read(RTC + register)
    write = lambda register, value: board.write(RTC + register, value)

    def wait(seconds):
        board.wait(seconds * 1000)

    # The crystal's oscillator, and 32768 cycles a second.
    write(CONTROL, 1 << 31 | 1 << 24)
    write(CALIB_WRITE, 0x7FFF)
    begin, ticks = read(CURRENT_TIME), []
    for _ in range(4):
        board.wait(700)
        ticks.append(read(CURRENT_TICK))
    passed = read(CURRENT_TIME) - begin
    write(SET_TIME_WRITE, 1000)
    wait(2)
    moved = read(CURRENT_TIME) - begin
    print(f"seconds after 2.8 s: {passed}; ticks: {ticks}; seconds two after the time was set to 1000: {moved}")
    flags = []
    for enable in (0, 3):
        write(INT_EN, enable)
        write(INT_STATUS, 3)
        write(ALARM, read(CURRENT_TIME) + 2)
        alarm = read(ALARM)
        wait(4)
        flags.append(read(INT_STATUS))
        print(f"enabled: {3 - read(INT_MASK)}, alarm over: {read(CURRENT_TIME) - alarm} s, flags: {flags[-1]}")
sys.exit(0 if passed in (2, 3) and ticks == [0] * 4 and moved in (4, 5) and flags == [0, 0] else 1)
PYTHON
