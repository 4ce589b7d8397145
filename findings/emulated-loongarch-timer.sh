#!/usr/bin/env bash
# The value register of QEMU's LoongArch timer holds 2^60 and more once the timer is over or off.
#
# Version: Debian's qemu-system-misc 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the reference manual of LoongArch (volume 1, 7.6): a timer that is not periodic
# stops at 0, where its value register stays. The value that `rdtime.d` reads is the counter plus the compensation
# register CNTC.
# Seen: on the board virt the value falls to the end of the count. From then on it is about 2^64 / 10, and goes on
# falling. It is so as well after the enable bit has been cleared in mid-count. CNTC holds what is written to it, and
# `rdtime.d` takes no notice.
#
# For the author of a driver: the time that is left of a timer is the value only while the enable bit is set and the
# value is at most the count. To move the time of a processor on this board, add in software.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
emulator=qemu-system-loongarch64
package=qemu-system-misc
. "$(dirname "$0")/support/emulated.sh"
python3 - <<'PYTHON'
import sys
from emulated import LoongArchBoard

CONFIGURATION, VALUE, COMPENSATION = 0x41, 0x42, 0x43
ENABLE = 1
# A timer of 50 ms at 100 MHz.
COUNT = 5_000_000
FORWARD = 1 << 44
REGISTER = 5
RDTIME = 0x00006800 | REGISTER
with LoongArchBoard("virt", 0x00200000) as board:

    def read(control):
        return board.execute([0x04000000 | control << 10 | REGISTER], REGISTER)

    def write(control, value):
        board.execute([0x04000020 | control << 10 | REGISTER], REGISTER, value)

    before = board.execute([RDTIME], REGISTER)
    write(COMPENSATION, FORWARD)
    after = board.execute([RDTIME], REGISTER)
    kept = read(COMPENSATION)

    write(CONFIGURATION, COUNT | ENABLE)
    board.wait(1000)
    running = read(VALUE)
    board.wait(60_000)
    over = read(VALUE)
    board.wait(1000)
    over_later = read(VALUE)
    write(CONFIGURATION, COUNT | ENABLE)
    board.wait(1000)
    write(CONFIGURATION, COUNT)
    off = read(VALUE)
print(f"time {before}, with a compensation of {kept} {after}")
print(f"value of a one-shot timer of {COUNT}: after 1 ms {running}, after 61 ms {over}, after 62 ms {over_later}")
print(f"value after the enable bit is cleared in mid-count: {off}")
as_described = kept == FORWARD > after >= before and 0 < running < COUNT
as_described &= min(over, over_later, off) > 1 << 60 and over_later < over
sys.exit(0 if as_described else 1)
PYTHON
