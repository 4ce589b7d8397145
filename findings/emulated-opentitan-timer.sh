#!/usr/bin/env bash
# The timer of QEMU's OpenTitan board counts while it is off, and its count, prescaler and step cannot be set.
#
# Version: Debian's qemu-system-misc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: the value counts while the control bit is set and stands still otherwise; software may
# write the value; a prescaler of 9 makes it count at a tenth of the rate, a step of 10 by ten each time.
# Seen: the value is ten ticks further after each millisecond, with the bit clear or set. A value that is written is not
# there when it is read, and neither prescaler nor step change the rate.
#
# For a user: code that zeroes the timer and waits for a number of ticks, or halts it to read both halves, works on the
# chip and not on this board. Take differences of the value, and read the upper half twice.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-riscv32
package=qemu-system-misc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import RiscvBoard

TIMER = 0x40100000
CONTROL, RATE, VALUE = 0x04, 0x100, 0x104
ACTIVE = 1
with RiscvBoard("opentitan", 0x10000000) as board:
    read = lambda register: board.read(TIMER + register)
    write = lambda register, value: board.write(TIMER + register, value)

    def counted():
        before = read(VALUE)
        board.wait(10_000)
        return read(VALUE) - before

    off = counted()
    write(CONTROL, ACTIVE)
    on = counted()
    write(RATE, 1 << 16 | 9)
    prescaled = counted()
    write(RATE, 10 << 16)
    stepped = counted()
    write(CONTROL, 0)
    off_again = counted()
    before = read(VALUE)
    write(VALUE, 5)
    written = read(VALUE)
print(f"ticks in 10 ms: off {off}, on {on}, prescaler 9 {prescaled}, step 10 {stepped}, off again {off_again}")
print(f"value: {before}, after 5 is written: {written}")
as_described = all(90 <= ticks <= 200 for ticks in (off, on, prescaled, stepped, off_again)) and written >= before > 5
sys.exit(0 if as_described else 1)
PYTHON
