#!/usr/bin/env bash
# QEMU's i.MX general-purpose timer passes its compare value unnoticed while no interrupt is enabled.
#
# Version: Debian's qemu-system-arm 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run: when the counter reaches output compare 1, the timer sets the flag of it in the status
# register, whether or not the interrupt register lets that through, and in restart mode the counter begins again at 0.
# Seen: on the boards kzm, sabrelite and imx25-pdk that is so with the interrupt enabled. With it disabled the flag is
# never set, and the counter of the restart mode goes on past the compare value like a free-running one.
#
# For a user: a driver that polls the flag waits for ever on these boards, and a clock that relies on the restart is
# wrong by whole periods. Enable the interrupt at the timer and mask it at the interrupt controller.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import Board

CONTROL, PRESCALER, STATUS, INTERRUPTS, COMPARE, COUNTER = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x24
ENABLE, FROM_ZERO, PERIPHERAL_CLOCK = 1 << 0, 1 << 1, 1 << 6
PERIOD = 100_000
as_described = True
for machine, ram, timer in [
    ("kzm", 0x80000000, 0x53F90000),
    ("sabrelite", 0x10000000, 0x02098000),
    ("imx25-pdk", 0x80000000, 0x53F90000),
]:
    for enabled in (1, 0):
        with Board(machine, ram, False) as board:
            for register, value in [
                (PRESCALER, 0),
                (COMPARE, PERIOD),
                (INTERRUPTS, enabled),
                # Without the bit for free running, the counter begins again at a match.
                (CONTROL, PERIPHERAL_CLOCK | FROM_ZERO | ENABLE),
            ]:
                board.write(timer + register, value)
            counts = []
            for _ in range(6):
                board.wait(1000)
                counts.append(board.read(timer + COUNTER))
            flag = board.read(timer + STATUS) & 1
        print(f"{machine}, interrupt {'en' if enabled else 'dis'}abled: flag {flag}, counts {counts}")
        passed = max(counts) > PERIOD
        as_described &= (flag, passed) == ((1, False) if enabled else (0, True))
sys.exit(0 if as_described else 1)
PYTHON
