#!/usr/bin/env bash
# cyclictest's JSON loses what lies beyond its histogram, and two of its keys end with a colon.
#
# Version: Debian's rt-tests 2.4-1, which calls itself 2.40.
#
# Expected before the first run: an object in which "histogram" and a count of overflows add up to "cycles", and keys
# without punctuation.
# Seen: with `-h 2` on a machine that wakes threads later than 2 us, the terminal prints the samples beyond the last
# column as "Histogram Overflows", and the JSON has no such figure: the sum of "histogram" is less than "cycles", and
# no key says by how much. The keys of the command line and of the version are "cmdline:" and "rt_test_version:".
#
# For a reader of such files: compare the sum with "cycles" before a percentile is computed, or it is that of the fast
# samples alone. Look for both spellings of the two keys.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages or rights are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
packages=(rt-tests=2.4-1 libnuma1=2.0.16-1)
apt-get download -qq "${packages[@]}" > log 2>&1 || { echo "skipped: these packages cannot be had here" >&2; exit 3; }
for package in *.deb; do dpkg -x "$package" root; done
for package in "${packages[@]}"; do echo "version: $package"; done
export LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu
# The policy of ordinary threads makes the thread late by its slack of 50 us, so all samples lie beyond 2 us.
root/usr/bin/cyclictest --policy other -l 200 -i 1000 -h 2 -q --json=seen.json > seen.txt 2> log \
    || { echo "skipped: cyclictest does not run here: $(head -1 log)" >&2; exit 3; }
python3 - <<'PYTHON'
import json, re, sys

text = open("seen.txt").read()
seen = json.load(open("seen.json"))
thread = seen["thread"]["0"]
beyond = int(re.search(r"Histogram Overflows: (\d+)", text).group(1))
counted = sum(thread["histogram"].values())
print("keys with a colon:", [key for key in seen if key.endswith(":")])
print("keys of a thread:", list(thread))
print("histogram + overflows of the terminal == cycles:", counted + beyond == thread["cycles"])
print("histogram == cycles:", counted == thread["cycles"])
as_described = (
    [key for key in seen if key.endswith(":")] == ["cmdline:", "rt_test_version:"]
    and list(thread) == ["histogram", "cycles", "min", "max", "avg", "cpu", "node"]
    and counted + beyond == thread["cycles"]
    and counted < thread["cycles"]
)
print("as described" if as_described else "differs")
sys.exit(0 if as_described else 1)
PYTHON
