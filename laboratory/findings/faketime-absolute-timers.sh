#!/usr/bin/env bash
# Under faketime a timer for a moment on the monotonic clock lies decades ahead, and a short alarm disarms itself.
#
# Version: Debian's libfaketime 0.9.10-2.1.
#
# Expected before the first run: with FAKETIME="+0 x10" time goes ten times as fast for each call that waits or arms: a
# timer of one second, relative or absolute, has a tenth of a second left, and so has an alarm of one second.
# Seen: the monotonic clock shows the seconds since 1970. A timerfd for one second from now has 0.1 s left where it is
# relative or on the real-time clock, and more than fifty years where it is absolute and on the monotonic clock, with
# "+0" as well. Timers of timer_settime and setitimer go at their own rate, 1 s. An alarm of 20 s has 2 s left; one of
# 1 s is rounded to none, and none is armed.
#
# For a user: a program whose event loop arms absolute timers stands still under faketime, one that calls alarm may lose
# it. FAKETIME_DONT_FAKE_MONOTONIC=1 leaves the monotonic clock alone; better is a clock that the program can set itself.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
package=libfaketime=0.9.10-2.1
command -v python3 > /dev/null || { echo "skipped: there is no python3" >&2; exit 3; }
(cd "$dir" && apt-get download -qq "$package" > log 2>&1) || { echo "skipped: $package cannot be had here" >&2; exit 3; }
dpkg -x "$dir"/*.deb "$dir/unpacked"
library=$(find "$dir/unpacked" -name libfaketimeMT.so.1)
echo "version: $package"
cat > "$dir/left.py" <<'PYTHON'
import ctypes
import time

libc = ctypes.CDLL(None, use_errno=True)
SYS_TIMERFD_GETTIME = 287  # x86-64: past the library under test
ABSOLUTE = 1
SIGEV_NONE = 1


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanos", ctypes.c_long)]


class Setting(ctypes.Structure):
    _fields_ = [("interval", Timespec), ("value", Timespec)]


class Notice(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("kind", ctypes.c_int), ("rest", ctypes.c_char * 48)]


def setting(clock, absolute):
    if not absolute:
        return Setting(value=Timespec(1, 0))
    now = time.clock_gettime_ns(clock) + 1_000_000_000
    return Setting(value=Timespec(now // 1_000_000_000, now % 1_000_000_000))


def seconds(setting):
    return setting.value.seconds + setting.value.nanos / 1e9


def descriptor(clock, absolute):
    timer, left = libc.timerfd_create(clock, 0), Setting()
    libc.timerfd_settime(timer, ABSOLUTE if absolute else 0, ctypes.byref(setting(clock, absolute)), None)
    libc.syscall(SYS_TIMERFD_GETTIME, timer, ctypes.byref(left))
    return seconds(left)


def posix():
    timer, left = ctypes.c_void_p(), Setting()
    notice = Notice(kind=SIGEV_NONE)
    libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(notice), ctypes.byref(timer))
    libc.timer_settime(timer, 0, ctypes.byref(setting(time.CLOCK_MONOTONIC, False)), None)
    libc.timer_gettime(timer, ctypes.byref(left))
    return seconds(left)


def alarm(count):
    left = (ctypes.c_long * 4)()
    libc.alarm(count)
    libc.getitimer(0, ctypes.byref(left))
    libc.alarm(0)
    return left[2] + left[3] / 1e6


def interval():
    set_to, left = (ctypes.c_long * 4)(0, 0, 5, 0), (ctypes.c_long * 4)()
    libc.setitimer(0, ctypes.byref(set_to), None)
    libc.getitimer(0, ctypes.byref(left))
    libc.alarm(0)
    return left[2] + left[3] / 1e6


monotonic, real = time.CLOCK_MONOTONIC, time.CLOCK_REALTIME
print(f"clock={time.clock_gettime(monotonic):.0f} relative={descriptor(monotonic, False):.2f}"
      f" real={descriptor(real, True):.2f} absolute={descriptor(monotonic, True):.0f} posix={posix():.2f}"
      f" alarm20={alarm(20):.1f} alarm1={alarm(1):.1f} itimer5={interval():.1f}")
PYTHON
as_described=1
for fake in "+0" "+0 x10"; do
    line=$(LD_PRELOAD=$library FAKETIME=$fake python3 "$dir/left.py")
    echo "FAKETIME=\"$fake\": $line"
    python3 - "$fake" "$line" <<'PYTHON' || as_described=0
import sys

rate = 10 if "x10" in sys.argv[1] else 1
seen = {name: float(value) for name, value in (word.split("=") for word in sys.argv[2].split())}
near = lambda name, value: value * 0.9 <= seen[name] <= value + 0.02
decades = 50 * 365 * 86_400
sys.exit(
    not (
        seen["clock"] > decades
        and seen["absolute"] > decades
        and near("relative", 1 / rate)
        and near("real", 1 / rate)
        and near("posix", 1)
        and near("alarm20", 20 / rate)
        and near("alarm1", 0 if rate == 10 else 1)
        and near("itimer5", 5)
    )
)
PYTHON
done
[ $as_described = 1 ]
