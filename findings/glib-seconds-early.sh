#!/usr/bin/env bash
# GLib's timers in whole seconds end up to a quarter of a second early, those of two and more seconds too.
#
# Version: Debian's libglib2.0-0 2.74.6-2+deb12u9.
#
# What a user expects: the reference (g_timeout_add_seconds, g_timeout_add_seconds_full) says that GLib groups these
# timers, that their first call may be imprecise where they last one second, and that g_timeout_add takes no account of
# the time that a callback needs. So a timer of two or three seconds may be late, but never early.
# Seen: GLib moves the deadline to one phase of the second that all of them share, and to the one before where that is
# at most a quarter of a second away. Of ten timers of two seconds that are armed 0.1 s apart, two or three end 0 to
# 0.25 s before their time, the others up to 0.75 s after it. So do those of three seconds. g_timeout_add(2000) is
# never early.
#
# For a user: a deadline that must not come early needs g_timeout_add, or another look at the clock.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
package=libglib2.0-0=2.74.6-2+deb12u9
apt-get download -qq "$package" > log 2>&1 || { echo "skipped: $package cannot be had here" >&2; exit 3; }
dpkg -x ./*.deb root
echo "version: $package"
cat > early.py <<'PYTHON'
import ctypes
import sys
import time

try:
    glib = ctypes.CDLL("root/usr/lib/x86_64-linux-gnu/libglib-2.0.so.0")
except OSError as error:
    print("skipped:", error, file=sys.stderr)
    sys.exit(3)
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
for arm in (glib.g_timeout_add, glib.g_timeout_add_seconds):
    arm.argtypes = [ctypes.c_uint, Callback, ctypes.c_void_p]
glib.g_main_loop_new.restype = ctypes.c_void_p
glib.g_main_loop_run.argtypes = glib.g_main_loop_quit.argtypes = [ctypes.c_void_p]
loop = glib.g_main_loop_new(None, 0)
kept, pending, late = [], 0, {}


def timer(name, arm, length, seconds):
    """Arms a timer, and notes by how much it is late."""
    start = time.monotonic()

    def fire(_data):
        global pending
        late.setdefault(name, []).append(time.monotonic() - start - seconds)
        pending -= 1
        if pending == 0:
            glib.g_main_loop_quit(loop)
        return 0

    kept.append(Callback(fire))
    arm(length, kept[-1], None)


def arm_all(_data):
    timer("add_seconds(2)", glib.g_timeout_add_seconds, 2, 2)
    timer("add_seconds(3)", glib.g_timeout_add_seconds, 3, 3)
    timer("add(2000)", glib.g_timeout_add, 2000, 2)
    return 0


for tenth in range(10):
    pending += 3
    kept.append(Callback(arm_all))
    glib.g_timeout_add(100 * tenth, kept[-1], None)
glib.g_main_loop_run(loop)
for name, each in late.items():
    early = sum(by < 0 for by in each)
    print(f"{name}: {early} of {len(each)} early, from {min(each):+.3f} s to {max(each):+.3f} s")
as_described = (
    all(-0.26 < min(late[name]) < -0.1 and 2 <= sum(by < 0 for by in late[name]) <= 3
        for name in ("add_seconds(2)", "add_seconds(3)"))
    and min(late["add(2000)"]) >= 0
)
print("as described" if as_described else "differs")
sys.exit(0 if as_described else 1)
PYTHON
python3 early.py
