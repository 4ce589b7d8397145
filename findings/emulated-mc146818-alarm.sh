#!/usr/bin/env bash
# In 12-hour mode the alarm of QEMU's MC146818 for noon rings at midnight and at eight, and that for midnight never.
#
# Version: Debian's qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the data sheet of the MC146818A (Time, Calendar, and Alarm Locations; Register C):
# an alarm for an hour rings when the clock comes to that hour, in the 12-hour mode with its bit for the afternoon too.
# The periodic flag PF rises at the chosen rate whether its interrupt is enabled or not, as do AF and UF.
# Seen on the board pc: in 24-hour mode each alarm rings once a day. In 12-hour mode 3 AM rings at 3 and at 19, 11 AM at
# 11 and 15, 3 PM at 11 and 15, 11 PM at 7 and 23. PF stays 0 for a second without PIE, and rises with it.
#
# For the author of a driver: use the 24-hour mode. To poll for the rate, enable the interrupt and mask it elsewhere.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=../libexec/qemu-system-i386
package=qemu-system-x86
modules=qemu-system-common
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import X86Board

A, B, C = 10, 11, 12
SECONDS, MINUTES, HOURS, ALARM = 0, 2, 4, (1, 3, 5)
SET, PERIODIC_INTERRUPT, MODE_24 = 1 << 7, 1 << 6, 1 << 1
PERIODIC, ALARM_FLAG, UPDATE = 1 << 6, 1 << 5, 1 << 4
# The clock counts the board's time. An instruction takes 1024 ns, so that seconds are soon over.
OPTIONS = ["-icount", "shift=10", "-rtc", "base=2026-11-29T06:00:00,clock=vm"]


def decimal(number):
    return number // 10 * 16 + number % 10


def hour(mode, number):
    if mode == MODE_24:
        return decimal(number)
    return decimal(number % 12 or 12) | (0x80 if number >= 12 else 0)


with X86Board("pc", 0x1000, OPTIONS) as board:

    def read(register):
        board.write_port(0x70, register)
        return board.read_port(0x71)

    def write(register, value):
        board.write_port(0x70, register)
        board.write_port(0x71, value)

    def wait(seconds):
        board.wait(seconds * 1000)

    def rings(mode, alarm, at):
        """Returns true if the alarm rings when the clock goes from two seconds before an hour to that hour."""
        write(B, SET | mode)
        write(SECONDS, 0x58)
        write(MINUTES, 0x59)
        write(HOURS, hour(mode, (at - 1) % 24))
        for register, value in zip(ALARM, (0, 0, hour(mode, alarm))):
            write(register, value)
        write(B, mode)
        read(C)
        wait(3)
        flags = read(C)
        if (read(HOURS), read(MINUTES)) != (hour(mode, at), 0):
            sys.exit("the clock did not come to the hour")
        return bool(flags & ALARM_FLAG)

    seen = {}
    for mode, name in (MODE_24, "24-hour"), (0, "12-hour"):
        for alarm in (0, 3, 11, 12, 15, 23):
            seen[mode, alarm] = [at for at in range(24) if rings(mode, alarm, at)]
            print(f"{name} mode, alarm for {alarm}:00 rings at {seen[mode, alarm]}")
    flags = []
    write(A, 0x26)
    for enable in (0, PERIODIC_INTERRUPT):
        write(B, MODE_24 | enable)
        read(C)
        wait(2)
        flags.append(read(C) & (PERIODIC | UPDATE))
print(f"flags PF and UF at 1024 Hz without PIE: {flags[0]:#x}, with PIE: {flags[1]:#x}")
described = {alarm: [alarm] for alarm in (0, 3, 11, 12, 15, 23)}
described_12 = {0: [], 3: [3, 19], 11: [11, 15], 12: [0, 8], 15: [11, 15], 23: [7, 23]}
as_described = all(seen[MODE_24, alarm] == hours for alarm, hours in described.items())
as_described &= all(seen[0, alarm] == hours for alarm, hours in described_12.items())
sys.exit(0 if as_described and flags == [UPDATE, PERIODIC | UPDATE] else 1)
PYTHON
