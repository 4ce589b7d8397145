#!/usr/bin/env bash
# durationpy writes six digits of the seconds, so that most lengths come back up to 50 µs off.
#
# Version: PyPI's durationpy 0.11.
#
# What a user expects: the package converts between Python's timedelta and the duration strings of Go, as its summary
# says. Go's Duration.String gives all the digits of a length, and a timedelta has whole microseconds.
# Expected before the first run: from_str(to_str(length)) is the length.
# Seen: each number in the text has six digits at most. 1.000001 s becomes 1s, 12.345678 s becomes 12.3457s, and of 1000
# lengths below a minute 960 come back other than they went, up to 50 µs off in both directions. From a million hours
# on the text has an exponent, as 1e+06h, which neither ParseDuration of Go nor from_str itself reads.
#
# For a user: a deadline that is passed on as text may come early. Write the microseconds as a whole number and us.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the package is missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > /dev/null || { echo "skipped: there is no python3" >&2; exit 3; }
cd "$dir"
python3 -m venv venv > log 2>&1 && venv/bin/pip install -q durationpy==0.11 > log 2>&1 \
    || { echo "skipped: durationpy 0.11 cannot be had here" >&2; exit 3; }
cat > lengths.py <<'PYTHON'
from datetime import timedelta

import durationpy


def back(length):
    try:
        return (durationpy.from_str(durationpy.to_str(length)) - length) // timedelta(microseconds=1)
    except durationpy.DurationError:
        return "error"


for length in (
    timedelta(milliseconds=1500),
    timedelta(seconds=1, microseconds=1),
    timedelta(seconds=10, microseconds=1),
    timedelta(seconds=12, microseconds=345678),
    timedelta(seconds=59, microseconds=999999),
    timedelta(hours=999999),
    timedelta(hours=1000001),
    timedelta(hours=1234567),
):
    print(f"{length.total_seconds():f} s: {durationpy.to_str(length)}, µs off: {back(length)}")
off = [abs(back(timedelta(microseconds=59_999_999 - 59_999 * step))) for step in range(1000)]
print(f"others of 1000: {sum(map(bool, off))}, at most {max(off)} µs off")
PYTHON
venv/bin/pip list --disable-pip-version-check 2> log | grep '^durationpy ' | sed 's/^/version: /'
venv/bin/python lengths.py | tee seen
cat > expected <<'TEXT'
1.500000 s: 1.5s, µs off: 0
1.000001 s: 1s, µs off: -1
10.000001 s: 10s, µs off: -1
12.345678 s: 12.3457s, µs off: 22
59.999999 s: 60s, µs off: 1
3599996400.000000 s: 999999h, µs off: 0
3600003600.000000 s: 1e+06h, µs off: error
4444441200.000000 s: 1.23457e+06h, µs off: error
others of 1000: 960, at most 50 µs off
TEXT
diff expected seen && echo "as described: 9 of 9 lines"
