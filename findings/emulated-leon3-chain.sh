#!/usr/bin/env bash
# The chain bit of QEMU's LEON3 timer is kept and has no effect: a chained timer counts ticks, not underflows.
#
# Version: Debian's qemu-system-sparc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the user's manual of the GRLIB IP cores (GPTIMER): a timer whose chain bit is set
# counts down once for each underflow of the timer before it, so that two of them make a longer one.
# Seen: on the board leon3_generic, timer 1 runs with a period of 100 ms and timer 2 is chained to it with a period of
# 100 underflows, 10 s. Timer 2 counts a hundred times the tick instead: its interrupt flag comes within a millisecond,
# before timer 1 has underflowed. The bit is set when it is read.
#
# For a user: a long timeout or a 64-bit clock of chained timers ends at once, or runs fast, on this board. Count the
# interrupts of the first timer in software.
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

TIMERS = 0x80000300
SCALER, SCALER_RELOAD = 0x00, 0x04
COUNTER, RELOAD, CONTROL = 0x00, 0x04, 0x08
ENABLE, RESTART, LOAD, INTERRUPT, PENDING, CHAIN = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5
with SparcBoard("leon3_generic", 0x40000000) as board:
    read = lambda timer, register: board.read(TIMERS + 0x10 * timer + register)
    write = lambda timer, register, value: board.write(TIMERS + 0x10 * timer + register, value)
    # A tick of both timers is a microsecond.
    write(0, SCALER_RELOAD, 49)
    write(0, SCALER, 49)
    write(1, RELOAD, 100_000 - 1)
    write(2, RELOAD, 100 - 1)
    write(2, CONTROL, CHAIN | LOAD | INTERRUPT | RESTART | ENABLE)
    write(1, CONTROL, LOAD | INTERRUPT | RESTART | ENABLE)
    board.wait(10_000)
    pending = [read(timer, CONTROL) & PENDING for timer in (1, 2)]
    first, chained = read(1, COUNTER), read(2, CONTROL) & CHAIN
print(f"after 10 ms: timer 1 at {first} of 100000, interrupt {pending[0] // PENDING}")
print(f"timer 2, chain bit {chained // CHAIN}, period of 100 underflows of timer 1: interrupt {pending[1] // PENDING}")
sys.exit(0 if first > 0 and pending == [0, PENDING] and chained else 1)
PYTHON
