/*
 * tickless.h: exact and coarse timers for C and C++.
 *
 * All functions return a number that is not negative, or a negative number of
 * errno.h. Times and delays are nanoseconds. docs/capi.md is the guide.
 *
 * A thread makes a loop or a worker. The timers that it initialises then are
 * its own: all functions answer -EPERM to other threads, and to threads that
 * have neither a loop nor a worker, but for those whose comment says otherwise.
 *
 * The end of a thread cancels its timers, whose memory is yours again, and
 * frees its loop. Destructors of thread keys may use both still, once.
 *
 * Callbacks are called by tickless_loop_turn, tickless_worker_turn and
 * tickless_worker_park. They may start, cancel and destroy any timer, their own
 * too, and free the memory of what they destroyed. They must not throw
 * exceptions, leave by longjmp, or end their thread: pthread_exit in a callback
 * aborts the process, and so does a cancellation that takes effect in a call of
 * the library. A thread that others cancel disables that around these calls, by
 * pthread_setcancelstate.
 *
 * Signal handlers may call tickless_clock_now and all functions of timers:
 * -EAGAIN if the handler interrupted a call of this thread that is at work.
 * They may not call tickless_timer_init_config with another clock than
 * TICKLESS_CLOCK_MONOTONIC, which starts a thread of the library. In the child
 * of a fork the first start on such a clock starts that thread. A handler that
 * frees the memory of a timer, or ends the loop, may do so under a callback.
 */
#ifndef TICKLESS_H
#define TICKLESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version that this header is of: see tickless_abi_version. */
#define TICKLESS_ABI_VERSION 0

/* The numbers of clocks are those of Linux. */
#define TICKLESS_CLOCK_REALTIME 0
#define TICKLESS_CLOCK_MONOTONIC 1
#define TICKLESS_CLOCK_BOOTTIME 7
#define TICKLESS_CLOCK_TAI 11

/* How large the structures are, in words of 64 bits. */
#define TICKLESS_TIMER_WORDS 32
#define TICKLESS_TIMEOUT_WORDS 28

/*
 * An exact timer. Put it wherever you like, initialise it there, do not move or
 * copy it, and destroy it before its memory goes.
 */
struct tickless_timer {
    uint64_t opaque[TICKLESS_TIMER_WORDS];
};

/* A coarse timer: up to an eighth of its delay late, and cheap in any number. */
struct tickless_timeout {
    uint64_t opaque[TICKLESS_TIMEOUT_WORDS];
};

/* The timers of a thread that has an event loop of its own. */
struct tickless_loop;

/* The timers of a thread that waits for nothing else. */
struct tickless_worker;

typedef void (*tickless_timer_callback)(struct tickless_timer *timer, void *argument);
typedef void (*tickless_timeout_callback)(struct tickless_timeout *timeout, void *argument);

/* How an exact timer is to be. Fill it with zeros first; set `size`. */
struct tickless_timer_config {
    size_t size;                      /* sizeof(struct tickless_timer_config) */
    tickless_timer_callback callback; /* what to call */
    void *argument;                   /* with what */
    uint64_t slack_ns;                /* how much later than asked it may fire */
    uint32_t clock;                   /* TICKLESS_CLOCK_... */
    uint32_t flags;                   /* none so far: zero */
};

/* The sizes are part of the interface: an array of negative size is an error. */
typedef char tickless_assert_timer[sizeof(struct tickless_timer) == 8 * TICKLESS_TIMER_WORDS ? 1 : -1];
typedef char tickless_assert_timeout[sizeof(struct tickless_timeout) == 8 * TICKLESS_TIMEOUT_WORDS ? 1 : -1];

/* The version that the library has. From any thread. */
uint32_t tickless_abi_version(void);

/* Writes what a clock shows. From any thread. -EINVAL: no such clock. */
int tickless_clock_now(uint32_t clock, uint64_t *now_ns);

/*
 * Loops.
 *
 * new:  -EEXIST if this thread has a loop or a worker; -ENOSPC if too many
 *       threads have timers; what the system says if it has no descriptor.
 * free: -EBUSY while a timer is pending, and inside of a callback.
 * fd:   the descriptor that is readable when a timer is due: for poll, epoll,
 *       io_uring and all that stands on them. Do not read or close it.
 * next: 1, and when the first timer fires on the monotonic clock; or 0.
 * turn: calls the callbacks of what is due, and returns how many. -EDEADLK
 *       inside of a callback.
 */
int tickless_loop_new(struct tickless_loop **made);
int tickless_loop_free(struct tickless_loop *loop);
int tickless_loop_fd(struct tickless_loop *loop);
int tickless_loop_next(struct tickless_loop *loop, uint64_t *at_ns);
int tickless_loop_turn(struct tickless_loop *loop);

/*
 * Workers: as loops.
 *
 * park:   sleeps until a timer is due or the worker is unparked, takes a turn,
 *         and returns how many callbacks it called; may return 0 for no reason.
 * unpark: from any thread, while the worker is not freed. Ends its park, or
 *         lets its next one return at once.
 */
int tickless_worker_new(struct tickless_worker **made);
int tickless_worker_free(struct tickless_worker *worker);
int tickless_worker_next(struct tickless_worker *worker, uint64_t *at_ns);
int tickless_worker_turn(struct tickless_worker *worker);
int tickless_worker_park(struct tickless_worker *worker);
int tickless_worker_unpark(struct tickless_worker *worker);

/*
 * Exact timers. -EINVAL: a null pointer, a structure that is not initialised,
 * was destroyed, copied or moved; -EPERM: another thread's.
 *
 * init:        on the monotonic clock, without slack. -EBUSY if the structure
 *              is initialised already; -ENOMEM if the system has no memory.
 * init_config: as the configuration says.
 * start:       so long from now. Returns 1 if the timer was pending, and has
 *              another time now. -EINVAL on TICKLESS_CLOCK_REALTIME, which is
 *              set, and for what is negative as a signed number; -EOVERFLOW
 *              beyond the end of the clock.
 * start_at:    for a time of the timer's clock; one that is over is due at once.
 * restart:     the delay of the last start, from now. -EINVAL if there is none.
 * forward:     starts again for the next time ahead that is a whole number of
 *              intervals after the last one, and writes how many times were
 *              missed, unless `passed` is null: what a periodic callback calls.
 *              -EBUSY while pending; -EINVAL for an interval of zero.
 * cancel:      returns 1 if the timer was pending, 0 if not.
 * try_cancel:  as cancel. -EBUSY inside of the timer's own callback.
 * cancel_sync: as cancel. -EDEADLK inside of the timer's own callback. After
 *              it the callback does not run. Other threads get -EPERM.
 * pending:     1 if its callback is to be called.
 * expires:     when it fires, or was to fire last.
 * destroy:     cancels the timer, after which its memory is yours again.
 */
int tickless_timer_init(struct tickless_timer *timer, tickless_timer_callback callback, void *argument);
int tickless_timer_init_config(struct tickless_timer *timer, const struct tickless_timer_config *config);
int tickless_timer_start(struct tickless_timer *timer, uint64_t delay_ns);
int tickless_timer_start_at(struct tickless_timer *timer, uint64_t at_ns);
int tickless_timer_restart(struct tickless_timer *timer);
int tickless_timer_forward(struct tickless_timer *timer, uint64_t interval_ns, uint64_t *passed);
int tickless_timer_cancel(struct tickless_timer *timer);
int tickless_timer_try_cancel(struct tickless_timer *timer);
int tickless_timer_cancel_sync(struct tickless_timer *timer);
int tickless_timer_pending(struct tickless_timer *timer);
int tickless_timer_expires(struct tickless_timer *timer, uint64_t *at_ns);
int tickless_timer_destroy(struct tickless_timer *timer);

/* Coarse timers: as exact ones, on the monotonic clock. */
int tickless_timeout_init(struct tickless_timeout *timeout, tickless_timeout_callback callback, void *argument);
int tickless_timeout_start(struct tickless_timeout *timeout, uint64_t delay_ns);
int tickless_timeout_start_at(struct tickless_timeout *timeout, uint64_t at_ns);
int tickless_timeout_restart(struct tickless_timeout *timeout);
int tickless_timeout_forward(struct tickless_timeout *timeout, uint64_t interval_ns, uint64_t *passed);
int tickless_timeout_cancel(struct tickless_timeout *timeout);
int tickless_timeout_try_cancel(struct tickless_timeout *timeout);
int tickless_timeout_cancel_sync(struct tickless_timeout *timeout);
int tickless_timeout_pending(struct tickless_timeout *timeout);
int tickless_timeout_expires(struct tickless_timeout *timeout, uint64_t *at_ns);
int tickless_timeout_destroy(struct tickless_timeout *timeout);

#ifdef __cplusplus
}
#endif

#endif
