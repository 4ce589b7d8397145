#!/usr/bin/env bash
# A signal of a POSIX timer that was disarmed stays in the set of sigpending, and is never delivered.
#
# Versions: Linux 6.18.44 with glibc 2.36 (Debian 12); prints those of the machine.
#
# Expected before the first run: disarming withdraws the pending signal, or leaves it; sigpending tells which.
# Seen: behind timer_settime with zero, and behind timer_delete, sigpending still names the blocked signal; when it is
# unblocked, no handler is called.
#
# For a program: do not wait for a signal because sigpending names it. sigtimedwait has a timeout for that.
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
#include <unistd.h>

static volatile sig_atomic_t calls;

static void handler(int signal) {
    (void)signal;
    calls++;
}

static int case_of(int deletes) {
    struct sigevent event;
    struct itimerspec value;
    sigset_t set, pending;
    timer_t timer;
    int is_pending;
    memset(&event, 0, sizeof event);
    memset(&value, 0, sizeof value);
    signal(SIGRTMIN, handler);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    value.it_value.tv_nsec = 1000000;
    timer_settime(timer, 0, &value, NULL);
    do {
        usleep(1000);
        sigpending(&pending);
    } while (!sigismember(&pending, SIGRTMIN));
    value.it_value.tv_nsec = 0;
    if (!deletes) timer_settime(timer, 0, &value, NULL);
    if (deletes) timer_delete(timer);
    sigpending(&pending);
    is_pending = sigismember(&pending, SIGRTMIN);
    calls = 0;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("%s: pending %d, delivered %d\n", deletes ? "deleted" : "disarmed", is_pending, (int)calls);
    return is_pending == 1 && calls == 0;
}

int main(void) {
    int disarmed = case_of(0), deleted = case_of(1);
    return disarmed && deleted ? 0 : 1;
}
C
gcc -o "$dir/program" "$dir/program.c" -lrt
uname -sr
ldd --version | sed -n 1p
"$dir/program"
