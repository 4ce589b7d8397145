#!/usr/bin/env bash
# The clock of QEMU's SPARCstation, an M48T08, goes on where its data sheet has it halted.
#
# Version: Debian's qemu-system-sparc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the data sheet of ST's M48T08 (Clock operations): while the READ bit of the control
# register is set, the registers of the time keep what they show, so that they can be read one by one. While the WRITE
# bit is set they are halted as well. The bit ST of the seconds stops the oscillator. A day of the week is 1 to 7.
# Seen on the board SS-5: the seconds go on with READ, with WRITE and with ST, as they do without. The control
# register reads 0x90, so that WRITE is set, after 0 was written to it. The day of the week is 0 on a Sunday.
#
# For the author of a driver: 07:59:59 and the second after it can be read as 07:00:00 here. Read the registers twice.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-sparc
package=qemu-system-sparc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import SparcBoard

CLOCK = 0x71201FF8
CONTROL, SECONDS, MINUTES, WEEKDAY = 0, 1, 2, 4
READ, WRITE, STOP = 0x40, 0x80, 0x80
# The clock counts the board's time, from a Sunday. An instruction takes 1024 ns, so that seconds are soon over.
OPTIONS = ["-icount", "shift=10", "-rtc", "base=2026-11-29T06:00:00,clock=vm"]
with SparcBoard("SS-5", 0x4000, OPTIONS) as board:
    read = lambda register: board.read(CLOCK + register, 1)
    write = lambda register, value: board.write(CLOCK + register, value, 1)

    def since_the_hour():
        number = lambda value: (value >> 4) * 10 + (value & 15)
        return number(read(MINUTES)) * 60 + number(read(SECONDS) & ~STOP)

    def goes_on():
        begin = since_the_hour()
        board.wait(3000)
        return 3 <= (since_the_hour() - begin) % 3600 <= 6

    weekday = read(WEEKDAY)
    seen = [goes_on()]
    for control in (READ, WRITE):
        write(CONTROL, control)
        seen += [bool(read(CONTROL) & control), goes_on()]
        write(CONTROL, 0)
    after = read(CONTROL)
    write(CONTROL, WRITE)
    write(SECONDS, STOP)
    write(CONTROL, 0)
    seen += [bool(read(SECONDS) & STOP), goes_on()]
print(f"Sunday is day {weekday}; goes on: {seen[0]}; control after 0 was written: {after:#x}")
for name, bit, on in ("READ", *seen[1:3]), ("WRITE", *seen[3:5]), ("ST", *seen[5:]):
    print(f"{name} is set: {bit}, goes on: {on}")
sys.exit(0 if all(seen) and weekday == 0 and after == 0x90 else 1)
PYTHON
