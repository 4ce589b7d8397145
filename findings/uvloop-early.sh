#!/usr/bin/env bash
# uvloop ends asyncio's sleeps up to half a millisecond early, and sleeps shorter than that do not sleep at all.
#
# Versions: uvloop 0.23.0, beside the loop of Python's own asyncio.
#
# Expected before the first run: a sleep of 0.4 ms or 1.4 ms takes at least that long on both loops, on uvloop up to a
# millisecond longer because libuv counts milliseconds.
# Seen: uvloop rounds the delay to the nearest millisecond. asyncio.sleep(0.0004) returns after some 30 us, and
# asyncio.sleep(0.0014) ends up to 0.4 ms before its time. asyncio's own loop is never early.
#
# For a user: who polls or retries with a delay below 0.5 ms spins; who waits for a deadline looks at the clock again.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv > log 2>&1 && venv/bin/pip install -q --only-binary :all: uvloop==0.23.0 > log 2>&1 \
    || { echo "skipped: uvloop 0.23.0 cannot be had here" >&2; exit 3; }
venv/bin/python - <<'PYTHON'
import asyncio
import sys
import time

import uvloop

print(f"uvloop {uvloop.__version__}, Python {sys.version.split()[0]}")


def shortest(loop, seconds):
    """The shortest of many sleeps, in microseconds."""
    taken = []
    for _ in range(100):
        start = time.perf_counter()
        loop.run_until_complete(asyncio.sleep(seconds))
        taken.append((time.perf_counter() - start) * 1e6)
    return round(min(taken))


seen = {}
for name, loop in [("asyncio", asyncio.new_event_loop()), ("uvloop", uvloop.new_event_loop())]:
    for micros in (400, 1400):
        seen[name, micros] = shortest(loop, micros / 1e6)
        print(f"{name}: the shortest of 100 sleeps of {micros} us took {seen[name, micros]} us")
    loop.close()
as_described = (
    seen["asyncio", 400] >= 400
    and seen["asyncio", 1400] >= 1400
    and seen["uvloop", 400] < 300
    and seen["uvloop", 1400] < 1400
)
sys.exit(0 if as_described else 1)
PYTHON
