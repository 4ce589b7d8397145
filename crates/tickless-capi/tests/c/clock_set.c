/*
 * A clock that is set, and timers of POSIX on it. A test may not set the time of day of the machine, so this program
 * has functions of its own in place of the C library's: the clock shows another time, the kernel's timers follow it, and
 * the descriptor by which the kernel reports a set reports this one. Ends with 0 if all held.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "is.h"
#include "tickless-posix.h"

#define SECOND 1000000000LL
#define HOUR (3600 * SECOND)

/* How far the time of day was set forward. */
static long long ahead;
/* The descriptor that waits for sets, and the sets that it has to report. */
static int watch = -1;
static sem_t sets;

/* The kernel's timer on the time of day. */
static int of_day = -1;

static struct timespec spec(long long nanos) {
    struct timespec made;
    made.tv_sec = (time_t)(nanos / SECOND);
    made.tv_nsec = (long)(nanos % SECOND);
    return made;
}

static long long nanos(struct timespec time) { return time.tv_sec * SECOND + time.tv_nsec; }

long syscall(long number, ...) {
    static long (*next)(long, ...);
    long result, arguments[6];
    struct itimerspec value;
    va_list list;
    int i;
    va_start(list, number);
    for (i = 0; i < 6; i++) arguments[i] = va_arg(list, long);
    va_end(list);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_timer_settime && arguments[0] == of_day && arguments[1] & TIMER_ABSTIME) {
        value = *(struct itimerspec *)arguments[2];
        if (nanos(value.it_value) != 0) value.it_value = spec(nanos(value.it_value) - __atomic_load_n(&ahead, __ATOMIC_SEQ_CST));
        arguments[2] = (long)&value;
    }
    result = next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    if (number == SYS_timer_create && result == 0 && arguments[0] == CLOCK_REALTIME) of_day = *(int *)arguments[2];
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_TAI) {
        *time = spec(nanos(*time) + __atomic_load_n(&ahead, __ATOMIC_SEQ_CST));
    }
    return 0;
}

int timerfd_settime(int descriptor, int flags, const struct itimerspec *value, struct itimerspec *former) {
    if (flags & TFD_TIMER_CANCEL_ON_SET) __atomic_store_n(&watch, descriptor, __ATOMIC_SEQ_CST);
    return (int)syscall(SYS_timerfd_settime, descriptor, flags, value, former);
}

ssize_t read(int descriptor, void *buffer, size_t length) {
    if (descriptor != __atomic_load_n(&watch, __ATOMIC_SEQ_CST)) return syscall(SYS_read, descriptor, buffer, length);
    while (sem_wait(&sets) != 0) {
    }
    errno = ECANCELED;
    return -1;
}

static void set_clock(long long nanos) {
    __atomic_store_n(&ahead, nanos, __ATOMIC_SEQ_CST);
    sem_post(&sets);
}

static long long now(clockid_t clock) {
    struct timespec shown;
    clock_gettime(clock, &shown);
    return nanos(shown);
}

static tickless_timer_id create(int signal) {
    struct sigevent event;
    tickless_timer_id id = 0;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signal;
    IS(tickless_timer_create(CLOCK_REALTIME, &event, &id), 0);
    return id;
}

static void set(tickless_timer_id id, int flags, long long time) {
    struct itimerspec value;
    value.it_value = spec(time);
    value.it_interval = spec(0);
    IS(tickless_timer_settime(id, flags, &value, NULL), 0);
}

static long long left(tickless_timer_id id) {
    struct itimerspec value;
    IS(tickless_timer_gettime(id, &value), 0);
    return nanos(value.it_value);
}

/* Waits for a signal; a minute is for what hangs. */
static int comes(int signal) {
    struct timespec minute = spec(60 * SECOND);
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, signal);
    return sigtimedwait(&awaited, NULL, &minute) == signal;
}

static int is_pending(int signal) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}

int main(void) {
    tickless_timer_id relative, absolute;
    int of_relative = SIGRTMIN, of_absolute = SIGRTMIN + 1;
    long long start;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, of_relative);
    sigaddset(&blocked, of_absolute);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sem_init(&sets, 0, 0);
    relative = create(of_relative);
    absolute = create(of_absolute);

    /* Set forward past both: the time of the clock has come, and the hour has not passed. */
    set(relative, 0, HOUR);
    set(absolute, TIMER_ABSTIME, now(CLOCK_REALTIME) + HOUR);
    IS(left(absolute) > HOUR / 2 && left(absolute) <= HOUR, 1);
    set_clock(2 * HOUR);
    IS(comes(of_absolute), 1);
    IS(left(absolute), 0);
    IS(is_pending(of_relative), 0);
    IS(left(relative) > HOUR / 2 && left(relative) <= HOUR, 1);

    /* Set back behind both: the milliseconds pass, and the time of the clock is hours ahead. */
    start = now(CLOCK_MONOTONIC);
    set(absolute, TIMER_ABSTIME, now(CLOCK_REALTIME) + SECOND / 100);
    set(relative, 0, SECOND / 100);
    set_clock(-2 * HOUR);
    IS(comes(of_relative), 1);
    IS(now(CLOCK_MONOTONIC) >= start + SECOND / 100, 1);
    IS(left(relative), 0);

    IS(tickless_timer_delete(relative), 0);
    IS(tickless_timer_delete(absolute), 0);
    return faults != 0;
}
