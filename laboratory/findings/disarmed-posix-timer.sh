#!/usr/bin/env bash
# A POSIX timer with SIGEV_NONE that was disarmed goes on showing the time that it had left.
#
# Versions: Linux 6.18.44 with glibc 2.36 (Debian 12); prints those of the machine.
#
# Expected before the first run: timer_gettime writes zeros for a timer that is not armed, as POSIX says, whatever its
# way of notification is.
# Seen: armed for a second with SIGEV_NONE and disarmed at once, timer_gettime still says 0.9999 s, and counts down.
# The same timer with SIGEV_SIGNAL says zero.
#
# For a program that asks such a timer whether it is armed: keep a flag of your own.
#
# Exits with 0 while that is so, with 1 once it differs, with 3 where there is no compiler.
set -euo pipefail
command -v gcc > /dev/null || exit 3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/program.c" <<'C'
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int left_when_disarmed(int notify) {
    struct sigevent event;
    struct itimerspec value, left;
    timer_t timer;
    memset(&event, 0, sizeof event);
    memset(&value, 0, sizeof value);
    event.sigev_notify = notify;
    event.sigev_signo = SIGUSR1;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    value.it_value.tv_sec = 1;
    timer_settime(timer, 0, &value, NULL);
    value.it_value.tv_sec = 0;
    timer_settime(timer, 0, &value, NULL);
    timer_gettime(timer, &left);
    printf("%s: %ld.%09ld s left\n", notify == SIGEV_NONE ? "SIGEV_NONE" : "SIGEV_SIGNAL", (long)left.it_value.tv_sec,
           left.it_value.tv_nsec);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
}

int main(void) {
    int none = left_when_disarmed(SIGEV_NONE), signal = left_when_disarmed(SIGEV_SIGNAL);
    return none && !signal ? 0 : 1;
}
C
gcc -o "$dir/program" "$dir/program.c" -lrt
uname -sr
ldd --version | sed -n 1p
"$dir/program"
