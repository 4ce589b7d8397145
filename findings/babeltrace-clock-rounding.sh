#!/usr/bin/env bash
# babeltrace2 gives events of different cycles the same time, unless the trace's clock counts nanoseconds.
#
# Version: Debian's babeltrace2 2.0.4-1+b6.
#
# What a user expects: CTF 1.8.2 lets a clock have any frequency (section 8, "Clocks"), and a clock of 24 MHz, as a
# CPU's counter may be, has a cycle each 41.7 ns. Events one cycle apart are shown 41 or 42 ns apart, as they are where
# the count is small.
# Seen: babeltrace2 converts the count to nanoseconds in floating point. With a count since 1970 the shown time moves in
# steps of 256 ns: the first six events one cycle apart have two times, and the first is shown 256 ns before its
# second begins. No message says so. A clock of 1 GHz with the same times is exact.
#
# For the writer of a trace: put the long part in the clock's offset_s, count from there, or write nanoseconds. For a
# reader: how late an expiry was cannot be taken from such times, nor which of two events came first.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
packages=(babeltrace2=2.0.4-1+b6 libbabeltrace2-0=2.0.4-1+b6 libdw1=0.188-2.1 libelf1=0.188-2.1)
apt-get download -qq "${packages[@]}" > log 2>&1 || { echo "skipped: these packages cannot be had here" >&2; exit 3; }
for package in *.deb; do dpkg -x "$package" root; done
lib=$dir/root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$lib BABELTRACE_PLUGIN_PATH=$lib/babeltrace2/plugins
root/usr/bin/babeltrace2 --version > version 2> log || { echo "skipped: $(head -1 log)" >&2; exit 3; }
echo "version: ${packages[0]}, $(head -1 version)"
# Writes a trace of six events, one cycle apart: the folder, the clock's frequency, offset_s, and the first count.
cat > make.py <<'PYTHON'
import os
import struct
import sys

folder, frequency, offset, first = sys.argv[1], *map(int, sys.argv[2:])
os.mkdir(folder)
with open(f"{folder}/metadata", "w") as metadata:
    metadata.write(
        f"""/* CTF 1.8 */
typealias integer {{ size = 32; align = 8; signed = false; }} := word;
typealias integer {{ size = 64; align = 8; signed = false; }} := wide;
trace {{ major = 1; minor = 8; byte_order = le; packet.header := struct {{ word magic; word stream_id; }}; }};
clock {{ name = "counter"; freq = {frequency}; offset_s = {offset}; }};
typealias integer {{ size = 64; align = 8; signed = false; map = clock.counter.value; }} := stamp;
stream {{
    id = 0;
    event.header := struct {{ word id; stamp timestamp; }};
    packet.context := struct {{ stamp timestamp_begin; stamp timestamp_end; wide content_size; wide packet_size; }};
}};
event {{ id = 0; name = "expire"; stream_id = 0; fields := struct {{ wide cycles; }}; }};
"""
    )
counts = [first + number for number in range(6)]
events = b"".join(struct.pack("<IQQ", 0, count, count) for count in counts)
bits = 8 * (40 + len(events))
with open(f"{folder}/stream", "wb") as stream:
    stream.write(struct.pack("<IIQQQQ", 0xC1FC1FC1, 0, counts[0], counts[-1], bits, bits) + events)
PYTHON
show() { # the name to show, and the arguments for a trace
    python3 make.py "$@"
    echo "$1: $(root/usr/bin/babeltrace2 --clock-seconds "$1" | sed 's/^\[\([0-9.]*\)\].*/\1/' | xargs)"
}
{
    show small 24000000 0 24000000
    show since-1970 24000000 0 40800000000000000
    show with-offset 24000000 1700000000 0
    show nanoseconds 1000000000 0 1700000000000000000
} | tee seen
cat > expected <<'TEXT'
small: 1.000000000 1.000000041 1.000000083 1.000000125 1.000000166 1.000000208
since-1970: E9.999999744 E9.999999744 E9.999999744 E9.999999744 E9.999999744 F0.000000256
with-offset: F0.000000000 F0.000000041 F0.000000083 F0.000000125 F0.000000166 F0.000000208
nanoseconds: F0.000000000 F0.000000001 F0.000000002 F0.000000003 F0.000000004 F0.000000005
TEXT
# E and F stand for the leading digits of the second before 1,700,000,000 and of that second.
diff expected <(sed 's/169999999/E/g; s/170000000/F/g' seen) && echo "as described: 4 of 4 traces"
