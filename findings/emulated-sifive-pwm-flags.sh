#!/usr/bin/env bash
# The compare flags of QEMU's SiFive PWM, which are its outputs, do not fall with the counter.
#
# Version: Debian's qemu-system-misc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the manual of the FU540-C000 (chapter on the PWM): a compare flag is set while the
# scaled counter is at or above the compare value. Only the sticky bit keeps it when the counter begins again.
# Seen: on the board sifive_u the flag of channel 1 is set when the counter has passed the value. With the sticky bit
# clear, and the counter back at 0, it stays set until a write clears it. Cleared by hand it stays clear below the
# value.
#
# For a user: an output of this PWM rises once and stays, and an interrupt of it is a level that does not go. Clear the
# flags by hand on this board, as with the sticky bit.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-riscv64
package=qemu-system-misc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Riscv64Board

RAM = 0x80000000
PWM = 0x10020000
CONFIGURATION, COUNT, SCALED, COMPARE = 0x00, 0x08, 0x10, 0x20
ALWAYS, STICKY = 1 << 12, 1 << 8
# The counter is divided by 1024, so that 1000 steps take 2 ms.
SCALE = 10
FIRST_FLAG = 28
VALUE = 1000
with Riscv64Board("sifive_u", RAM + 0x1000) as board:
    # The other processors of the board stay where they begin.
    board.write(RAM, 0x0000006F)
    read = lambda register: board.read(PWM + register)
    write = lambda register, value: board.write(PWM + register, value)
    flags = lambda: read(CONFIGURATION) >> FIRST_FLAG
    for channel in (0, 2, 3):
        write(COMPARE + 4 * channel, 0xFFFF)
    write(COMPARE + 4, VALUE)
    write(CONFIGURATION, ALWAYS | SCALE)
    begun = read(SCALED), flags()
    board.wait(5_000)
    passed = read(SCALED), flags()
    sticky = read(CONFIGURATION) & STICKY
    # Stops the counter with the flags as they are, and has it begin again at 0.
    write(CONFIGURATION, read(CONFIGURATION) & ~ALWAYS)
    write(COUNT, 0)
    board.wait(1000)
    again = read(SCALED), flags()
    write(CONFIGURATION, SCALE)
    board.wait(1000)
    cleared = read(SCALED), flags()
for name, (count, flag) in [("begun", begun), ("passed", passed), ("at 0 again", again), ("cleared", cleared)]:
    print(f"{name}: count {count}, compare value {VALUE}, flags {flag:04b}, sticky {sticky}")
as_described = begun[0] < VALUE < passed[0] and (begun[1], passed[1], sticky) == (0b0000, 0b0010, 0)
as_described &= (again, cleared) == ((0, 0b0010), (0, 0b0000))
sys.exit(0 if as_described else 1)
PYTHON
