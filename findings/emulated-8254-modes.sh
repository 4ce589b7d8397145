#!/usr/bin/env bash
# The one-shot output of QEMU's 8254 is upside down, its decimal counts are binary, and its gate does not stop a count.
#
# Version: Debian's qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3.
#
# Expected before the first run, by the data sheet of the 82C54: in mode 1 the output is high, falls when the gate
# rises, and rises again when the count is over. With the BCD bit of the control word, a count written as 0x9000 is 9000
# clocks long. In mode 0 a count stands still while the gate is low.
# Seen on the board pc: in mode 1 the output stays high while the count goes on, and is low behind its end for ever.
# With the BCD bit, which the status shows, 0x9000 is 36,864 clocks long. In mode 0 channel 2 counts while its gate is
# low.
#
# For a user: code that measures a time with channel 2, as the calibration of other clocks does, passes on this board
# although it never opens the gate. Use binary counts, and mode 0 with the gate open, which count as described.
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

CHANNEL, CONTROL, GATE = 0x42, 0x43, 0x61
SELECT, BOTH_BYTES, BCD = 2 << 6, 3 << 4, 1
# Of the read-back command: the status of channel 2.
STATUS = 0xE8
OUTPUT = 0x80
with X86Board("pc", 0x1000) as board:

    def begin(mode, count):
        board.write_port(CONTROL, SELECT | BOTH_BYTES | mode)
        board.write_port(CHANNEL, count & 0xFF)
        board.write_port(CHANNEL, count >> 8)

    def status():
        board.write_port(CONTROL, STATUS)
        return board.read_port(CHANNEL)

    def output():
        return int(status() & OUTPUT != 0)

    def count():
        board.write_port(CONTROL, SELECT)
        low = board.read_port(CHANNEL)
        return low | board.read_port(CHANNEL) << 8

    # A clock of the count is 838 ns long.
    board.write_port(GATE, 0)
    begin(1 << 1, 50_000)
    outputs = [output()]
    board.write_port(GATE, 1)
    for millis in (5, 60):
        board.wait(millis * 1000)
        outputs.append(output())

    begin(0 << 1 | BCD, 0x9000)
    bit, counts = status() & BCD, [count()]
    board.wait(12_000)
    counts.append(count())
    decimal_over = output()
    board.wait(30_000)
    binary_over = output()

    board.write_port(GATE, 0)
    begin(0 << 1, 60_000)
    closed = count()
    board.wait(5000)
    closed_later = count()
print(f"mode 1, count of 42 ms: outputs before the trigger, 5 ms after it, 65 ms after it: {outputs}")
print(f"mode 0, BCD bit {bit}, count {counts[0]:#x}: {counts[1]:#x} after 12 ms with output {decimal_over},"
      f" output {binary_over} after 42 ms")
print(f"mode 0, gate closed: count {closed}, 5 ms later {closed_later}")
as_described = outputs == [1, 1, 0] and (bit, decimal_over, binary_over) == (1, 0, 1)
as_described &= closed - closed_later > 5000
sys.exit(0 if as_described else 1)
PYTHON
