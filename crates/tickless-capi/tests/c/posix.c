/*
 * What POSIX says of timers, written once: against the functions of the system
 * if SYSTEM is defined, else against those of Tickless. Ends with 0 if all of
 * it held. It waits for what has to come, and never says that it came in time.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "is.h"
#include "tickless-posix.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#ifdef SYSTEM
typedef timer_t id_type;
#define RESULT(call) ((call) == -1 ? -errno : 0)
static int create(clockid_t clock, struct sigevent *event, id_type *id) { return RESULT(timer_create(clock, event, id)); }
static int set(id_type id, int flags, const struct itimerspec *value, struct itimerspec *former) {
    return RESULT(timer_settime(id, flags, value, former));
}
static int get(id_type id, struct itimerspec *value) { return RESULT(timer_gettime(id, value)); }
static int overrun(id_type id) {
    int count = timer_getoverrun(id);
    return count == -1 ? -errno : count;
}
static int delete(id_type id) { return RESULT(timer_delete(id)); }
static int nap(clockid_t clock, int flags, const struct timespec *request, struct timespec *remain) {
    return -clock_nanosleep(clock, flags, request, remain);
}
#else
typedef tickless_timer_id id_type;
#define create tickless_timer_create
#define set tickless_timer_settime
#define get tickless_timer_gettime
#define overrun tickless_timer_getoverrun
#define delete tickless_timer_delete
#define nap tickless_clock_nanosleep
#endif

#define MS 1000000L

static long long now(clockid_t clock) {
    struct timespec shown;
    clock_gettime(clock, &shown);
    return shown.tv_sec * 1000000000LL + shown.tv_nsec;
}

static struct timespec spec(long long nanos) {
    struct timespec made;
    made.tv_sec = (time_t)(nanos / 1000000000LL);
    made.tv_nsec = (long)(nanos % 1000000000LL);
    return made;
}

static struct itimerspec value(long long first, long long interval) {
    struct itimerspec made;
    made.it_value = spec(first);
    made.it_interval = spec(interval);
    return made;
}

static long long nanos(struct timespec time) { return time.tv_sec * 1000000000LL + time.tv_nsec; }

/* Until a time, since what is left is rounded up each time: with a signal every few microseconds it would never end. */
static void rest(long long nanos) {
    struct timespec until = spec(now(CLOCK_MONOTONIC) + nanos);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

static struct sigevent by_signal(int signal, int number) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signal;
    event.sigev_value.sival_int = number;
    return event;
}

/* What the handler saw. */
static volatile sig_atomic_t hits, seen_overrun, seen_value, seen_code, handler_result;
static volatile long long total, seen_time;
static id_type of_handler;
static int sets_again;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    seen_time = now(CLOCK_MONOTONIC);
    seen_overrun = overrun(of_handler);
    total += 1 + seen_overrun;
    seen_value = info->si_value.sival_int;
    seen_code = info->si_code;
    if (sets_again) {
        struct itimerspec again = value(MS, 0), left;
        handler_result = set(of_handler, 0, &again, NULL);
        get(of_handler, &left);
    }
    hits++;
}

static void catch_signal(int signal) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(signal, &action, NULL);
}

/* Waits for the handler; a minute is for what hangs. */
static void until_hits(int count) {
    int rounds;
    for (rounds = 0; rounds < 60000 && hits < count; rounds++) rest(MS);
    IS(hits >= count, 1);
}

static void block(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}

static void bad_input(void) {
    struct sigevent event = by_signal(SIGUSR1, 0);
    struct itimerspec bad = value(0, 0), left;
    struct timespec time;
    id_type id, second;
    IS(create(100, &event, &id), -EINVAL);
    IS(create(CLOCK_MONOTONIC_COARSE, &event, &id), -EOPNOTSUPP);
#ifndef SYSTEM
    /* The system has these. */
    IS(create(CLOCK_PROCESS_CPUTIME_ID, &event, &id), -ENOTSUP);
    IS(create(CLOCK_THREAD_CPUTIME_ID, &event, &id), -ENOTSUP);
    IS(create(CLOCK_MONOTONIC, &event, NULL), -EINVAL);
    IS(set(0, 0, &bad, NULL), -EINVAL);
    IS(set(UINT64_MAX, 0, &bad, NULL), -EINVAL);
    IS(get(UINT64_C(0x6000000100ffffff), &left), -EINVAL);
#endif
    event.sigev_signo = 0;
    IS(create(CLOCK_MONOTONIC, &event, &id), -EINVAL);
    event.sigev_signo = 65;
    IS(create(CLOCK_MONOTONIC, &event, &id), -EINVAL);
    event.sigev_signo = SIGUSR1;
    event.sigev_notify = 77;
    IS(create(CLOCK_MONOTONIC, &event, &id), -EINVAL);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_notify_thread_id = 1;
    IS(create(CLOCK_MONOTONIC, &event, &id), -EINVAL);
    event.sigev_notify = SIGEV_NONE;
    event.sigev_signo = 0;
    IS(create(CLOCK_MONOTONIC, &event, &id), 0);
    IS(set(id, 0, NULL, NULL), -EINVAL);
    bad.it_value.tv_nsec = -1;
    IS(set(id, 0, &bad, NULL), -EINVAL);
    bad.it_value.tv_nsec = 1000000000;
    IS(set(id, 0, &bad, NULL), -EINVAL);
    bad = value(0, 0);
    bad.it_value.tv_sec = -1;
    IS(set(id, 0, &bad, NULL), -EINVAL);
    IS(set(id, TIMER_ABSTIME, &bad, NULL), -EINVAL);
    bad = value(0, 0);
    bad.it_interval.tv_nsec = 1000000000;
    IS(set(id, 0, &bad, NULL), -EINVAL);
    bad.it_interval.tv_nsec = 0;
    bad.it_interval.tv_sec = -1;
    bad.it_value.tv_sec = 1;
    IS(set(id, 0, &bad, NULL), -EINVAL);
    bad = value(0, 0);
    bad.it_value.tv_sec = (time_t)INT64_MAX;
    IS(set(id, 0, &bad, NULL), 0);
    IS(get(id, &left), 0);
    IS(left.it_value.tv_sec > 1000000000, 1);
    IS(create(CLOCK_MONOTONIC, &event, &second), 0);
    IS(delete(id), 0);
    IS(delete(id), -EINVAL);
    IS(get(id, &left), -EINVAL);
    IS(overrun(id), -EINVAL);
    IS(delete(second), 0);
    time = spec(0);
    time.tv_nsec = -1;
    IS(nap(CLOCK_MONOTONIC, 0, &time, NULL), -EINVAL);
    time.tv_nsec = 1;
    IS(nap(100, 0, &time, NULL), -EINVAL);
    IS(nap(CLOCK_REALTIME, 0, &time, NULL), 0);
}

/* Without a notification all is arithmetic. */
static void asked_for_the_time_left(void) {
    struct sigevent event = by_signal(0, 0);
    struct itimerspec to = value(3600 * 1000 * MS, 7 * MS), left;
    clockid_t clocks[4];
    long long before;
    id_type id;
    int i;
    clocks[0] = CLOCK_REALTIME;
    clocks[1] = CLOCK_MONOTONIC;
    clocks[2] = CLOCK_BOOTTIME;
    clocks[3] = CLOCK_TAI;
    event.sigev_notify = SIGEV_NONE;
    for (i = 0; i < 4; i++) {
        IS(create(clocks[i], &event, &id), 0);
        IS(get(id, &left), 0);
        IS(nanos(left.it_value), 0);
        IS(set(id, 0x80, &to, &left), 0);
        IS(nanos(left.it_value), 0);
        IS(get(id, &left), 0);
        IS(nanos(left.it_value) > 0 && nanos(left.it_value) <= 3600 * 1000 * MS, 1);
        IS(nanos(left.it_interval), 7 * MS);
        /* Absolute: what is left is relative. */
        to = value(now(clocks[i]) + 1800 * 1000 * MS, 0);
        IS(set(id, TIMER_ABSTIME, &to, &left), 0);
        IS(nanos(left.it_value) > 1800 * 1000 * MS && nanos(left.it_value) <= 3600 * 1000 * MS, 1);
        /* To the nanosecond: the time left at a moment within the call. */
        before = now(clocks[i]);
        IS(get(id, &left), 0);
        IS(nanos(left.it_value) <= nanos(to.it_value) - before, 1);
        IS(nanos(left.it_value) >= nanos(to.it_value) - now(clocks[i]), 1);
        IS(nanos(left.it_interval), 0);
        /* Absolute and over: once, nothing is left; with an interval, a part of that. */
        to = value(now(clocks[i]) - 1000 * MS, 0);
        IS(set(id, TIMER_ABSTIME, &to, NULL), 0);
        IS(get(id, &left), 0);
        IS(nanos(left.it_value), 0);
        to = value(now(clocks[i]) - 1000 * MS, 7 * MS);
        IS(set(id, TIMER_ABSTIME, &to, NULL), 0);
        IS(get(id, &left), 0);
        IS(nanos(left.it_value) > 0 && nanos(left.it_value) <= 7 * MS, 1);
        /* Disarmed: the interval is gone too. */
        to = value(0, 7 * MS);
        IS(set(id, 0, &to, NULL), 0);
        IS(get(id, &left), 0);
#ifndef SYSTEM
        /* Linux shows what was left when it was disarmed: laboratory/findings/disarmed-posix-timer.sh. */
        IS(nanos(left.it_value), 0);
#endif
        IS(nanos(left.it_interval), 0);
        IS(overrun(id), 0);
        to = value(3600 * 1000 * MS, 7 * MS);
        IS(delete(id), 0);
    }
}

static void signals_come(int signal) {
    struct sigevent event = by_signal(signal, 4711);
    struct itimerspec to, left;
    long long at;
    int i;
    catch_signal(signal);
    hits = 0;
    IS(create(CLOCK_MONOTONIC, &event, &of_handler), 0);
    at = now(CLOCK_MONOTONIC) + 3 * MS;
    to = value(at, 0);
    IS(set(of_handler, TIMER_ABSTIME, &to, NULL), 0);
    until_hits(1);
    IS(now(CLOCK_MONOTONIC) >= at, 1);
    IS(seen_value, 4711);
    IS(seen_code, SI_TIMER);
    IS(seen_overrun, 0);
    IS(get(of_handler, &left), 0);
    IS(nanos(left.it_value), 0);
    /* Pushed out and brought forward: fires once. */
    hits = 0;
    to = value(600 * 1000 * MS, 0);
    for (i = 0; i < 100; i++) IS(set(of_handler, 0, &to, NULL), 0);
    to = value(MS, 0);
    IS(set(of_handler, 0, &to, &left), 0);
    IS(nanos(left.it_value) > 1000 * MS, 1);
    until_hits(1);
    /* Never early, for what the library keeps at first too. */
    for (i = 0; i < 20; i++) {
        long long delay = i % 2 ? 100000 : 5 * MS + 50000 * i;
        hits = 0;
        at = now(CLOCK_MONOTONIC) + delay;
        to = value(delay, 0);
        IS(set(of_handler, 0, &to, NULL), 0);
        until_hits(1);
        IS(seen_time >= at, 1);
    }
    to = value(MS, 0);
    hits = 0;
    /* The handler may set the timer. */
    sets_again = 1;
    handler_result = -1;
    IS(set(of_handler, 0, &to, NULL), 0);
    until_hits(20);
    IS(handler_result, 0);
    sets_again = 0;
    rest(5 * MS);
    IS(delete(of_handler), 0);
}

static void overruns_are_counted(int signal) {
    struct sigevent event = by_signal(signal, 1);
    struct itimerspec to, off = value(0, 0);
    long long start, interval;
    catch_signal(signal);
    IS(create(CLOCK_MONOTONIC, &event, &of_handler), 0);
    /* Armed for a time that is over: what is behind it are overruns. The clock may have begun a minute ago. */
    hits = 0;
    start = now(CLOCK_MONOTONIC);
    interval = start / 20;
    to = value(start - 10 * interval - interval / 2, interval);
    IS(set(of_handler, TIMER_ABSTIME, &to, NULL), 0);
    until_hits(1);
    IS(seen_overrun, 10);
    IS(set(of_handler, 0, &off, NULL), 0);
    IS(overrun(of_handler), 0);
    /* None is lost: each interval is a signal or an overrun. */
    hits = 0;
    total = 0;
    start = now(CLOCK_MONOTONIC) + 5 * MS;
    to = value(start, 2 * MS);
    IS(set(of_handler, TIMER_ABSTIME, &to, NULL), 0);
    until_hits(20);
    block(SIG_BLOCK, signal);
    rest(21 * MS);
    {
        int before = hits;
        block(SIG_UNBLOCK, signal);
        until_hits(before + 1);
        until_hits(before + 3);
        IS(set(of_handler, 0, &off, NULL), 0);
        IS(total <= (now(CLOCK_MONOTONIC) - start) / (2 * MS) + 1, 1);
        IS(total >= 20 + 10, 1);
    }
    IS(delete(of_handler), 0);
}

#ifndef __SANITIZE_THREAD__
/* Timers that share a signal: each counts its own expirations, up to the delivery and none twice. */
enum { SHARING = 5, ROUNDS = 20 };
static id_type sharing[SHARING];
static const long long shared_interval = 3 * MS;
static long long shared_start, sums[SHARING];
static volatile long long least[SHARING];
static volatile int awaited, too_many, too_few;

static long long expirations(long long time) { return (time - shared_start) / shared_interval + 1; }

static void sums_up(int signal, siginfo_t *info, void *context) {
    int i = info->si_value.sival_int;
    (void)signal;
    (void)context;
    sums[i] += 1 + overrun(sharing[i]);
    if (sums[i] > expirations(now(CLOCK_MONOTONIC))) too_many++;
    if (least[i] == 0) return;
    if (sums[i] < least[i]) too_few++;
    least[i] = 0;
    awaited--;
}

static void each_counts_its_own(int signal) {
    struct sigaction action;
    struct itimerspec to;
    int i, round, rounds;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = sums_up;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(signal, &action, NULL);
    shared_start = now(CLOCK_MONOTONIC) + 2 * MS;
    to = value(shared_start, shared_interval);
    for (i = 0; i < SHARING; i++) {
        struct sigevent event = by_signal(signal, i);
        sums[i] = 0;
        IS(create(CLOCK_MONOTONIC, &event, &sharing[i]), 0);
        IS(set(sharing[i], TIMER_ABSTIME, &to, NULL), 0);
    }
    for (round = 0; round < ROUNDS; round++) {
        block(SIG_BLOCK, signal);
        rest(round % 5 * shared_interval);
        while (now(CLOCK_MONOTONIC) < shared_start) rest(MS);
        awaited = SHARING;
        for (i = 0; i < SHARING; i++) least[i] = expirations(now(CLOCK_MONOTONIC));
        block(SIG_UNBLOCK, signal);
        for (rounds = 0; rounds < 60000 && awaited > 0; rounds++) rest(MS);
        IS(awaited, 0);
    }
    IS(too_many, 0);
    IS(too_few, 0);
    for (i = 0; i < SHARING; i++) IS(delete(sharing[i]), 0);
}

/* Each timer has a signal of its own, though ordinary signals with one number are one signal for other senders. */
static void each_sends_its_own(int signal) {
    struct itimerspec to = value(MS, 0);
    struct timespec minute = spec(60000 * MS);
    int i, taken[SHARING] = {0};
    sigset_t of_it;
    siginfo_t info;
    sigemptyset(&of_it);
    sigaddset(&of_it, signal);
    block(SIG_BLOCK, signal);
    for (i = 0; i < SHARING; i++) {
        struct sigevent event = by_signal(signal, i);
        IS(create(CLOCK_MONOTONIC, &event, &sharing[i]), 0);
        IS(set(sharing[i], 0, &to, NULL), 0);
    }
    /* All are pending then, if the kernel sends them. */
    rest(5 * MS);
    for (i = 0; i < SHARING; i++) {
        IS(sigtimedwait(&of_it, &info, &minute), signal);
        taken[info.si_value.sival_int]++;
    }
    for (i = 0; i < SHARING; i++) {
        IS(taken[i], 1);
        IS(delete(sharing[i]), 0);
    }
    block(SIG_UNBLOCK, signal);
}

/* The signals of one instant are all there when the first is taken: on one CPU no thread runs between them. */
static void one_instant_sends_all(void) {
    int status = 0, i, round;
    pid_t child = fork();
    if (child == 0) {
        struct timespec minute = spec(60000 * MS);
        sigset_t all, pending;
        cpu_set_t one;
        faults = 0;
        alarm(240);
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        sigemptyset(&all);
        for (i = 0; i < 3; i++) sigaddset(&all, SIGRTMIN + 5 + i);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        for (i = 0; i < 3; i++) {
            struct sigevent event = by_signal(SIGRTMIN + 5 + i, i);
            IS(create(CLOCK_MONOTONIC, &event, &sharing[i]), 0);
        }
        for (round = 0; round < 100; round++) {
            struct itimerspec to = value(now(CLOCK_MONOTONIC) + 2 * MS, 0);
            int taken, late;
            for (i = 0; i < 3; i++) IS(set(sharing[i], TIMER_ABSTIME, &to, NULL), 0);
            /* Armed one by one, and not before the instant. */
            late = now(CLOCK_MONOTONIC) > nanos(to.it_value);
            taken = sigtimedwait(&all, NULL, &minute);
            sigpending(&pending);
            for (i = 0; i < 3; i++) IS(late || taken == SIGRTMIN + 5 + i || sigismember(&pending, SIGRTMIN + 5 + i), 1);
            for (i = 1; i < 3; i++) IS(sigtimedwait(&all, NULL, &minute) > 0, 1);
        }
        fflush(stdout);
        _exit(faults != 0);
    }
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
}
#endif

/* An overrun is no larger than DELAYTIMER_MAX, however many there were. */
static void overruns_have_an_end(void) {
    int signal = SIGRTMIN + 4;
    struct sigevent event = by_signal(signal, 1);
    struct timespec minute = spec(60000 * MS);
    /* Two billion intervals are most of a second each: the time of day began in 1970. */
    long long interval = now(CLOCK_REALTIME) / (INT_MAX + 1000LL);
    struct itimerspec to = value(interval, interval);
    sigset_t of_it;
    siginfo_t info;
    id_type id;
    IS(sysconf(_SC_DELAYTIMER_MAX), INT_MAX);
    block(SIG_BLOCK, signal);
    sigemptyset(&of_it);
    sigaddset(&of_it, signal);
    IS(create(CLOCK_REALTIME, &event, &id), 0);
    IS(set(id, TIMER_ABSTIME, &to, NULL), 0);
    IS(sigtimedwait(&of_it, &info, &minute), signal);
    IS(overrun(id), INT_MAX);
    IS(delete(id), 0);
    block(SIG_UNBLOCK, signal);
}

/* What is pending goes with the time that it came from. */
static void pending_signals_go(int signal) {
    struct sigevent event = by_signal(signal, 1);
    struct itimerspec to = value(MS, MS), off = value(0, 0);
    int round, rounds;
    catch_signal(signal);
    for (round = 0; round < 2; round++) {
        sigset_t pending;
        block(SIG_BLOCK, signal);
        hits = 0;
        IS(create(CLOCK_MONOTONIC, &event, &of_handler), 0);
        IS(set(of_handler, 0, &to, NULL), 0);
        for (rounds = 0; rounds < 60000; rounds++) {
            sigpending(&pending);
            if (sigismember(&pending, signal)) break;
            rest(MS);
        }
        IS(sigismember(&pending, signal), 1);
        if (round == 0) {
            IS(set(of_handler, 0, &off, NULL), 0);
            block(SIG_UNBLOCK, signal);
            rest(5 * MS);
            IS(hits, 0);
            IS(delete(of_handler), 0);
        } else {
            IS(delete(of_handler), 0);
            block(SIG_UNBLOCK, signal);
            rest(5 * MS);
            IS(hits, 0);
        }
    }
}

#ifndef __SANITIZE_THREAD__
static void none_comes_behind_a_disarm(void) {
    struct sigevent event = by_signal(SIGRTMIN + 2, 1);
    struct itimerspec off = value(0, 0);
    int i, before;
    catch_signal(SIGRTMIN + 2);
    IS(create(CLOCK_MONOTONIC, &event, &of_handler), 0);
    for (i = 0; i < 300; i++) {
        struct itimerspec to = value(1000 + i * 997 % 100000, 50000);
        IS(set(of_handler, 0, &to, NULL), 0);
        rest(20000 + i * 331 % 90000);
        IS(set(of_handler, 0, &off, NULL), 0);
        before = hits;
        rest(50000);
        IS(hits, before);
    }
    /* Far enough to be the library's at first: disarmed while it becomes the kernel's. */
    for (i = 0; i < 100; i++) {
        struct itimerspec to = value(5 * MS + 50000, 0);
        IS(set(of_handler, 0, &to, NULL), 0);
        rest(i * 1331 % 100000);
        IS(set(of_handler, 0, &off, NULL), 0);
        before = hits;
        rest(6 * MS);
        IS(hits, before);
    }
    IS(delete(of_handler), 0);
}
#endif

static void *waits_for_its_signal(void *argument) {
    struct sigevent event = by_signal(SIGRTMIN + 1, 99);
    struct itimerspec to = value(MS, 0);
    sigset_t set_of_it;
    siginfo_t info;
    id_type id;
    int taken;
    (void)argument;
    sigemptyset(&set_of_it);
    sigaddset(&set_of_it, SIGRTMIN + 1);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_notify_thread_id = gettid();
    IS(create(CLOCK_MONOTONIC, &event, &id), 0);
    for (taken = 0; taken < 10; taken++) {
        struct timespec long_time = spec(60000 * MS);
        to = value(taken == 6 ? 8 * MS : MS, taken == 5 ? MS : 0);
        IS(set(id, 0, &to, NULL), 0);
        IS(sigtimedwait(&set_of_it, &info, &long_time), SIGRTMIN + 1);
        IS(info.si_value.sival_int, 99);
        IS(info.si_code, SI_TIMER);
    }
    IS(delete(id), 0);
    return NULL;
}

static void one_thread_gets_it(void) {
    pthread_t thread;
    block(SIG_BLOCK, SIGRTMIN + 1);
    pthread_create(&thread, NULL, waits_for_its_signal, NULL);
    pthread_join(thread, NULL);
    block(SIG_UNBLOCK, SIGRTMIN + 1);
}

static sem_t notified;
static int *of_function;
static pthread_t caller;
static size_t stack_size;
/* Each expiration has a thread, so the function runs in several at once. */
static pthread_mutex_t functions = PTHREAD_MUTEX_INITIALIZER;

static void function(union sigval argument) {
    pthread_attr_t attributes;
    sigset_t mask;
    pthread_mutex_lock(&functions);
    of_function = argument.sival_ptr;
    IS(pthread_equal(pthread_self(), caller), 0);
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, &stack_size);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    IS(sigismember(&mask, SIGUSR1), 1);
    pthread_mutex_unlock(&functions);
    sem_post(&notified);
    pthread_exit(NULL);
}

static void wait_for_function(sem_t *posted) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    while (sem_timedwait(posted, &until) == -1 && errno == EINTR) {
    }
}

static void threads_are_started(void) {
    struct sigevent event = by_signal(0, 0);
    struct itimerspec to = value(MS, MS), off = value(0, 0);
    pthread_attr_t attributes;
    int place = 0, i;
    id_type id;
    sem_init(&notified, 0, 0);
    caller = pthread_self();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 300 * 4096);
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = function;
    event.sigev_value.sival_ptr = &place;
    event.sigev_notify_attributes = &attributes;
    IS(create(CLOCK_REALTIME, &event, &id), 0);
    pthread_attr_destroy(&attributes);
    IS(set(id, 0, &to, NULL), 0);
    for (i = 0; i < 5; i++) wait_for_function(&notified);
    IS(set(id, 0, &off, NULL), 0);
    IS(of_function == &place, 1);
    IS(stack_size, 300 * 4096);
    rest(20 * MS);
    IS(delete(id), 0);
}

#ifndef __SANITIZE_THREAD__
static void children_have_none(void) {
    struct sigevent event = by_signal(SIGUSR2, 1);
    struct itimerspec to = value(50 * MS, 0), left;
    id_type id;
    pid_t child;
    int status = 0;
    catch_signal(SIGUSR2);
    hits = 0;
    IS(create(CLOCK_MONOTONIC, &event, &id), 0);
    of_handler = id;
    IS(set(id, 0, &to, NULL), 0);
    child = fork();
    if (child == 0) {
        id_type own;
        faults = 0;
        /* It may have fired in the parent before the fork. */
        hits = 0;
        alarm(240);
        IS(get(id, &left), -EINVAL);
        IS(set(id, 0, &to, NULL), -EINVAL);
        IS(delete(id), -EINVAL);
        one_thread_gets_it();
        IS(create(CLOCK_MONOTONIC, &event, &own), 0);
        IS(get(own, &left), 0);
        rest(100 * MS);
        IS(hits, 0);
        of_handler = own;
        to = value(MS, 0);
        IS(set(own, 0, &to, NULL), 0);
        until_hits(1);
        IS(delete(own), 0);
        fflush(stdout);
        _exit(faults != 0);
    }
    until_hits(1);
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    IS(delete(id), 0);
}
#endif

#ifndef __SANITIZE_THREAD__
/* Another than `notified`, which threads that were started before may still post. */
static sem_t forked;
static id_type forking;
static int of_child;

static void forks(union sigval argument) {
    pid_t child = fork();
    (void)argument;
    if (child == 0) {
        struct itimerspec left;
        faults = 0;
        alarm(240);
        IS(get(forking, &left), -EINVAL);
        one_thread_gets_it();
        fflush(stdout);
        _exit(faults != 0);
    }
    of_child = -1;
    IS(waitpid(child, &of_child, 0), child);
    sem_post(&forked);
}

/* The child has the thread of the function alone, and is a process with timers of its own. */
static void functions_fork(void) {
    struct itimerspec to = value(MS, 0);
    struct sigevent event;
    int i;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = forks;
    sem_init(&forked, 0, 0);
    IS(create(CLOCK_MONOTONIC, &event, &forking), 0);
    for (i = 0; i < 3; i++) {
        IS(set(forking, 0, &to, NULL), 0);
        wait_for_function(&forked);
        IS(of_child, 0);
    }
    IS(delete(forking), 0);
}
#endif

static void sleeps(void) {
    /* Again and again: the first may come before the thread sleeps. */
    struct itimerspec to = value(20 * MS, 20 * MS);
    struct sigevent event = by_signal(SIGUSR1, 1);
    struct timespec request = spec(3 * MS), remain;
    long long start = now(CLOCK_MONOTONIC);
    IS(nap(CLOCK_MONOTONIC, 0, &request, NULL), 0);
    IS(now(CLOCK_MONOTONIC) >= start + 3 * MS, 1);
    request = spec(now(CLOCK_REALTIME) + 2 * MS);
    IS(nap(CLOCK_REALTIME, TIMER_ABSTIME, &request, NULL), 0);
    IS(now(CLOCK_REALTIME) >= nanos(request), 1);
    catch_signal(SIGUSR1);
    IS(create(CLOCK_MONOTONIC, &event, &of_handler), 0);
    IS(set(of_handler, 0, &to, NULL), 0);
    request = spec(3600 * 1000 * MS);
    IS(nap(CLOCK_MONOTONIC, 0, &request, &remain), -EINTR);
    IS(nanos(remain) > 1800 * 1000 * MS && nanos(remain) < 3600 * 1000 * MS, 1);
    IS(delete(of_handler), 0);
}

#ifndef __SANITIZE_THREAD__
/* All at once, out of order, and none before its time. */
enum { MANY = 2000 };
static volatile int fired_of[MANY];

static void marks(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    fired_of[info->si_value.sival_int]++;
    hits++;
}

static void many_fire(void) {
    static id_type ids[MANY];
    struct sigaction action;
    int i;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = marks;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGRTMIN + 3, &action, NULL);
    hits = 0;
    for (i = 0; i < MANY; i++) {
        struct sigevent event = by_signal(SIGRTMIN + 3, i);
        struct itimerspec to = value(MS + i * 7919LL % MANY * 20000, 0);
        IS(create(CLOCK_MONOTONIC, &event, &ids[i]), 0);
        IS(set(ids[i], 0, &to, NULL), 0);
    }
    until_hits(MANY);
    for (i = 0; i < MANY; i++) {
        IS(fired_of[i], 1);
        IS(delete(ids[i]), 0);
    }
}
#endif

#ifndef SYSTEM
static void descriptors_count(void) {
    struct itimerspec to = value(MS, MS), off = value(0, 0);
    struct pollfd watched;
    tickless_timer_id id, other;
    uint64_t count = 0;
    long long start, sum = 0;
    int rounds;
    IS(tickless_timer_create_fd(CLOCK_MONOTONIC, -1, &id), -EINVAL);
    IS(tickless_timer_create_fd(CLOCK_MONOTONIC, EFD_NONBLOCK | EFD_CLOEXEC, &id), 0);
    watched.fd = tickless_timer_fd(id);
    watched.events = POLLIN;
    IS(read(watched.fd, &count, 8), -1);
    IS(errno, EAGAIN);
    IS(set(id, 0, &to, NULL), 0);
    /* Again where the thread of the library got no CPU meanwhile. */
    for (rounds = 0; rounds < 1000 && count < 2; rounds++) {
        IS(poll(&watched, 1, 60000), 1);
        rest(10 * MS);
        IS(read(watched.fd, &count, 8), 8);
    }
    IS(count >= 2, 1);
    IS(poll(&watched, 1, 60000), 1);
    IS(set(id, 0, &off, NULL), 0);
    IS(read(watched.fd, &count, 8), -1);
    /* Each expiration is counted once. */
    start = now(CLOCK_MONOTONIC) + MS;
    to = value(start, MS);
    IS(set(id, TIMER_ABSTIME, &to, NULL), 0);
    while (sum < 20) {
        IS(poll(&watched, 1, 60000), 1);
        IS(read(watched.fd, &count, 8), 8);
        sum += (long long)count;
        IS(sum <= (now(CLOCK_MONOTONIC) - start) / MS + 1, 1);
    }
    IS(set(id, 0, &off, NULL), 0);
    IS(read(watched.fd, &count, 8), -1);
    IS(delete(id), 0);
    IS(read(watched.fd, &count, 8), -1);
    IS(errno, EBADF);
    /* One that blocks. */
    IS(tickless_timer_create_fd(CLOCK_BOOTTIME, 0, &id), 0);
    IS(set(id, 0, &off, NULL), 0);
    to = value(MS, 0);
    IS(set(id, 0, &to, NULL), 0);
    IS(read(tickless_timer_fd(id), &count, 8), 8);
    IS(count, 1);
    IS(delete(id), 0);
    {
        struct sigevent event = by_signal(SIGUSR1, 1);
        IS(create(CLOCK_MONOTONIC, &event, &other), 0);
        IS(tickless_timer_fd(other), -EINVAL);
        IS(delete(other), 0);
    }
}
#endif

#ifndef SYSTEM
/* How often the thread of the library went to sleep; -1 if there is none. It is the first of its name: the threads of
   notifications have the name, too, and one may be about to end. */
static long sleeps_of_the_library(void) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    long count = -1;
    while (tasks != NULL && count < 0 && (task = readdir(tasks)) != NULL) {
        char path[300], line[300];
        int is_it = 0;
        FILE *status;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            if (strcmp(line, "Name:\ttickless-posix\n") == 0) is_it = 1;
            if (is_it) sscanf(line, "voluntary_ctxt_switches: %ld", &count);
        }
        if (status != NULL) fclose(status);
    }
    if (tasks != NULL) closedir(tasks);
    return count;
}

/* Signals need no CPU for the library's thread: a busy machine takes none away. */
static void the_library_sleeps(int signal) {
    struct sigevent event = by_signal(signal, 1);
    struct itimerspec to = value(MS, MS);
    long before, sleeps = 200;
    int rounds;
    catch_signal(signal);
    hits = 0;
    IS(create(CLOCK_MONOTONIC, &event, &of_handler), 0);
    IS(set(of_handler, 0, &to, NULL), 0);
    until_hits(1);
    /* Not one for each expiration. On a busy machine the thread may wait for something else for a while. */
    for (rounds = 0; rounds < 5 && sleeps >= 100; rounds++) {
        before = sleeps_of_the_library();
        IS(before >= 0, 1);
        hits = 0;
        until_hits(200);
        sleeps = sleeps_of_the_library() - before;
    }
    IS(sleeps < 100, 1);
    IS(delete(of_handler), 0);
}

#ifndef __SANITIZE_THREAD__
/* The system's limit is less than the timers: those that have fired give theirs back. */
static void more_timers_than_the_system_has(void) {
    enum { TIMERS = 300, LIMIT = 64 };
    static tickless_timer_id ids[TIMERS];
    int status = 0, i;
    pid_t child = fork();
    if (child == 0) {
        struct itimerspec to = value(MS, 0);
        struct rlimit limit;
        char line[300];
        long queued = 0;
        FILE *file = fopen("/proc/self/status", "r");
        faults = 0;
        alarm(240);
        while (file != NULL && fgets(line, sizeof line, file) != NULL) sscanf(line, "SigQ: %ld", &queued);
        getrlimit(RLIMIT_SIGPENDING, &limit);
        limit.rlim_cur = (rlim_t)queued + LIMIT;
        IS(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
        catch_signal(SIGRTMIN);
        hits = 0;
        for (i = 0; i < TIMERS; i++) {
            struct sigevent event = by_signal(SIGRTMIN, i);
            IS(tickless_timer_create(CLOCK_MONOTONIC, &event, &ids[i]), 0);
            of_handler = ids[0];
            IS(tickless_timer_settime(ids[i], 0, &to, NULL), 0);
        }
        until_hits(TIMERS);
        IS(hits, TIMERS);
        fflush(stdout);
        _exit(faults != 0);
    }
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
}
#endif

/* The system refuses the thread of the library, whose stack would be larger than any memory. */
static void no_thread_no_timer(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct sigevent event = by_signal(SIGUSR1, 1);
        tickless_timer_id id;
        int tries;
        alarm(240);
        setenv("RUST_MIN_STACK", "1125899906842624", 1);
        for (tries = 0; tries < 3; tries++) {
            IS(tickless_timer_create(CLOCK_MONOTONIC, &event, &id), -EAGAIN);
            IS(tickless_timer_create_fd(CLOCK_MONOTONIC, 0, &id), -EAGAIN);
        }
        fflush(stdout);
        _exit(faults != 0);
    }
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
}
#endif

int main(void) {
    alarm(900);
#ifndef SYSTEM
    no_thread_no_timer();
#endif
    /* First: it asks which process this is. */
    one_thread_gets_it();
    bad_input();
    asked_for_the_time_left();
    signals_come(SIGUSR1);
    signals_come(SIGRTMIN);
    overruns_are_counted(SIGUSR1);
    overruns_are_counted(SIGRTMIN);
    overruns_have_an_end();
#ifndef __SANITIZE_THREAD__
    /* The thread sanitizer keeps one signal of each number until the program sleeps, and loses the others. */
    each_counts_its_own(SIGUSR1);
    each_counts_its_own(SIGRTMIN);
    each_sends_its_own(SIGUSR1);
    each_sends_its_own(SIGRTMIN);
    one_instant_sends_all();
#endif
    pending_signals_go(SIGUSR1);
    pending_signals_go(SIGRTMIN);
#ifndef __SANITIZE_THREAD__
    /* The thread sanitizer calls handlers when the program sleeps next, so behind a disarm, the system's timers too. */
    none_comes_behind_a_disarm();
#endif
    threads_are_started();
#ifndef __SANITIZE_THREAD__
    /* The thread sanitizer refuses threads in the child of a fork, and the service is one. */
    children_have_none();
    functions_fork();
#endif
    sleeps();
#ifndef __SANITIZE_THREAD__
    /* The thread sanitizer keeps one signal of each number until the program sleeps, and loses the others. */
    many_fire();
#endif
#ifndef SYSTEM
    descriptors_count();
    the_library_sleeps(SIGRTMIN);
#ifndef __SANITIZE_THREAD__
    more_timers_than_the_system_has();
#endif
#endif
    return faults != 0;
}
