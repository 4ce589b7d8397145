#!/usr/bin/env bash
# QEMU's HPET fires at once where the comparator lies behind the counter, or half its range ahead.
#
# Version: Debian's qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: a one-shot comparator fires when the main counter equals it, as the specification of
# the device (IA-PC HPET 1.0a, 2.3.9) says. A comparator that the counter has passed waits until the counter has
# wrapped. A comparator of 32 bits that is 0x90000000 ticks ahead waits for 24 seconds.
# Seen: on the board pc, a comparator behind the counter fires at once with 32 and 64 bits. So does one that is more
# than half the range ahead: in 32-bit mode all deadlines from 21.5 seconds on, at 10 ns a tick.
#
# For the author of a driver: that a comparator was written in time cannot be tested on this board, and a driver without
# the usual check passes there and loses an event on real hardware. In 32-bit mode, bound a deadline to half the range.
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

HPET = 0xFED00000
PERIOD, ENABLE, STATUS, COUNTER, CONFIGURATION, COMPARATOR = 0x04, 0x10, 0x20, 0xF0, 0x100, 0x108
LEVEL, INTERRUPT, ONLY_32_BITS = 1 << 1, 1 << 2, 1 << 8
as_described = True
with X86Board("pc,hpet=on", 0x1000) as board:
    read = lambda register, size=4: board.read(HPET + register, size)
    write = lambda register, value, size=8: board.write(HPET + register, value, size)
    print(f"a tick is {read(PERIOD)} fs long")
    for bits, start, comparator, expected in [
        (32, 0, 0x7FF00000, 0),
        (32, 0, 0x90000000, 1),
        (32, 0x10000000, 0x8000000, 1),
        (64, 0, 0x90000000, 0),
        (64, 0x10000000, 0x8000000, 1),
        (64, 0, 1 << 63 | 1 << 32, 1),
    ]:
        write(ENABLE, 0)
        write(CONFIGURATION, 0)
        write(STATUS, 1)
        write(COUNTER, start)
        write(CONFIGURATION, LEVEL | INTERRUPT | (ONLY_32_BITS if bits == 32 else 0))
        write(COMPARATOR, comparator)
        write(ENABLE, 1)
        board.wait(20)
        fired, counter = read(STATUS) & 1, read(COUNTER, 8)
        print(f"{bits} bits, counter from {start:#x}, comparator {comparator:#x}: at {counter:#x} fired {fired}")
        as_described &= fired == expected and start < counter < start + 0x8000000
sys.exit(0 if as_described else 1)
PYTHON
