#!/usr/bin/env bash
# A 1 that is written to a flag of QEMU's AVR timer sets the flag instead of clearing it.
#
# Version: Debian's qemu-system-misc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the data sheets of the ATmega328P and ATmega2560 (timer interrupt flag register): a
# flag is cleared by writing a 1 to it, and zeros change nothing. Programs that poll write a 1, start the timer, and
# wait.
# Seen: on the boards uno and mega2560 the register of timer 1, whose clock is stopped, holds what was written last. A 1
# sets a flag that was clear, and a 0 clears it.
#
# For a user: a wait that polls a flag of this timer is over at once on these boards. Use the interrupt or the counter.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-avr
package=qemu-system-misc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import AvrBoard

FLAGS = 0x36
OVERFLOW, COMPARE_A = 1 << 0, 1 << 1
as_described = True
for machine in ("uno", "mega2560"):
    with AvrBoard(machine) as board:
        seen = [board.read_data(FLAGS)]
        for value in (COMPARE_A, OVERFLOW, COMPARE_A | OVERFLOW, 0):
            board.write_data(FLAGS, value)
            seen.append(board.read_data(FLAGS))
    print(f"{machine}: flags at first {seen[0]}, after the writes 2, 1, 3, 0: {seen[1:]}")
    as_described &= seen == [0, 2, 1, 3, 0]
sys.exit(0 if as_described else 1)
PYTHON
