/*
 * tickless-posix.h: the timers of POSIX in user space, by Tickless.
 *
 * As timer_create, timer_settime, timer_gettime, timer_getoverrun,
 * timer_delete and clock_nanosleep, with two differences: results are 0 or a
 * negative number of errno.h, and an id is a number of 64 bits. All functions
 * work on any thread, with or without a loop or worker of tickless.h.
 *
 * A thread of the library notifies, but of signals: for those the library
 * makes a timer of the kernel 5 milliseconds before they are due.
 *
 * Define _POSIX_C_SOURCE as 199309L or more before the first #include.
 */
#ifndef TICKLESS_POSIX_H
#define TICKLESS_POSIX_H

#include <signal.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names a timer. Zero is none. */
typedef uint64_t tickless_timer_id;

/*
 * create:     makes a timer that is not armed. `event` says how it notifies, as
 *             POSIX has it: SIGEV_NONE, SIGEV_SIGNAL, SIGEV_THREAD, and
 *             SIGEV_THREAD_ID of Linux; null is SIGALRM with the id as value.
 *             The clocks are CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME
 *             and CLOCK_TAI. -ENOTSUP: another clock of the system, among them
 *             those of processor time; -EINVAL: no clock, signal or thread;
 *             -EAGAIN: no more timers or threads. Not in signal handlers.
 * create_fd:  makes a timer with a descriptor like that of timerfd_create, that
 *             counts expirations: read 8 bytes of it. `flags` are those of
 *             eventfd: EFD_NONBLOCK, EFD_CLOEXEC. delete closes it. Not in
 *             signal handlers.
 * fd:         that descriptor. -EINVAL if the timer has none.
 * settime:    arms the timer, or disarms it if it_value is zero. With
 *             TIMER_ABSTIME for a time of the clock, that follows if the clock
 *             is set. A relative time does not follow. -EINVAL: a negative
 *             time, or nanoseconds that are no part of a second. After it no
 *             notification of the former time is sent; a signal that is pending
 *             is taken back as the kernel does so: Linux 6.18 does.
 * gettime:    the time that is left, relative also if the timer was armed for
 *             an absolute one; zero if it is not armed.
 * getoverrun: expirations between the one that was notified of last and the
 *             delivery of the signal, the start of the thread or the write to
 *             the descriptor, DELAYTIMER_MAX at most. While a signal of the
 *             timer is pending no other is queued; those expirations count here.
 * delete:     ends the timer. Its id is -EINVAL from then on. Not in signal
 *             handlers.
 *
 * The child of a fork has no timers: -EINVAL.
 */
int tickless_timer_create(clockid_t clock, struct sigevent *event, tickless_timer_id *made);
int tickless_timer_create_fd(clockid_t clock, int flags, tickless_timer_id *made);
int tickless_timer_fd(tickless_timer_id id);
int tickless_timer_settime(tickless_timer_id id, int flags, const struct itimerspec *value, struct itimerspec *former);
int tickless_timer_gettime(tickless_timer_id id, struct itimerspec *value);
int tickless_timer_getoverrun(tickless_timer_id id);
int tickless_timer_delete(tickless_timer_id id);

/*
 * Sleeps as clock_nanosleep does, without the 50 microseconds that Linux adds:
 * during the call the timer slack of the thread is a nanosecond. A signal
 * handler that leaves the call by longjmp leaves it so. -EINTR: a signal
 * handler was called; what is left of a relative time is in `remain`. No
 * cancellation point.
 */
int tickless_clock_nanosleep(clockid_t clock_id, int flags, const struct timespec *request, struct timespec *remain);

#ifdef __cplusplus
}
#endif

#endif
