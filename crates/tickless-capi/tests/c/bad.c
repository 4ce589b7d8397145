/* Calls that programs get wrong, and calls from places where few functions may be called. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "turns.h"

static void null_pointers_are_refused(void) {
    uint64_t at;
    IS(tickless_timer_init(NULL, count, NULL), -EINVAL);
    IS(tickless_timer_init_config(NULL, NULL), -EINVAL);
    IS(tickless_timer_start(NULL, 1), -EINVAL);
    IS(tickless_timer_start_at(NULL, 1), -EINVAL);
    IS(tickless_timer_restart(NULL), -EINVAL);
    IS(tickless_timer_forward(NULL, 1, &at), -EINVAL);
    IS(tickless_timer_cancel(NULL), -EINVAL);
    IS(tickless_timer_try_cancel(NULL), -EINVAL);
    IS(tickless_timer_cancel_sync(NULL), -EINVAL);
    IS(tickless_timer_pending(NULL), -EINVAL);
    IS(tickless_timer_expires(NULL, &at), -EINVAL);
    IS(tickless_timer_destroy(NULL), -EINVAL);
    IS(tickless_timeout_init(NULL, count_timeout, NULL), -EINVAL);
    IS(tickless_timeout_start(NULL, 1), -EINVAL);
    IS(tickless_timeout_start_at(NULL, 1), -EINVAL);
    IS(tickless_timeout_restart(NULL), -EINVAL);
    IS(tickless_timeout_forward(NULL, 1, &at), -EINVAL);
    IS(tickless_timeout_cancel(NULL), -EINVAL);
    IS(tickless_timeout_try_cancel(NULL), -EINVAL);
    IS(tickless_timeout_cancel_sync(NULL), -EINVAL);
    IS(tickless_timeout_pending(NULL), -EINVAL);
    IS(tickless_timeout_expires(NULL, &at), -EINVAL);
    IS(tickless_timeout_destroy(NULL), -EINVAL);
    IS(tickless_loop_new(NULL), -EINVAL);
    IS(tickless_loop_free(NULL), -EINVAL);
    IS(tickless_loop_fd(NULL), -EINVAL);
    IS(tickless_loop_next(NULL, &at), -EINVAL);
    IS(tickless_loop_next(the_loop, NULL), -EINVAL);
    IS(tickless_loop_turn(NULL), -EINVAL);
    IS(tickless_worker_new(NULL), -EINVAL);
    IS(tickless_worker_free(NULL), -EINVAL);
    IS(tickless_worker_next(NULL, &at), -EINVAL);
    IS(tickless_worker_turn(NULL), -EINVAL);
    IS(tickless_worker_park(NULL), -EINVAL);
    IS(tickless_worker_unpark(NULL), -EINVAL);
    IS(tickless_clock_now(TICKLESS_CLOCK_MONOTONIC, NULL), -EINVAL);
}

static void timeouts_are_checked_as_timers_are(void) {
    struct tickless_timeout timeout, copy;
    int fired = 0;
    memset(&timeout, 0x55, sizeof timeout);
    IS(tickless_timeout_start(&timeout, 1), -EINVAL);
    IS(tickless_timeout_destroy(&timeout), -EINVAL);
    IS(tickless_timeout_init(&timeout, count_timeout, &fired), 0);
    IS(tickless_timeout_init(&timeout, count_timeout, &fired), -EBUSY);
    memcpy(&copy, &timeout, sizeof copy);
    IS(tickless_timeout_start(&copy, 1), -EINVAL);
    IS(tickless_timeout_start(&timeout, (uint64_t)-1), -EINVAL);
    IS(tickless_timeout_start(&timeout, INT64_MAX), -EOVERFLOW);
    IS(tickless_timeout_forward(&timeout, 0, NULL), -EINVAL);
    IS(tickless_timeout_forward(&timeout, (uint64_t)-1, NULL), -EINVAL);
    IS(tickless_timeout_restart(&timeout), -EINVAL);
    IS(tickless_timeout_destroy(&timeout), 0);
    IS(tickless_timeout_destroy(&timeout), -EINVAL);
    IS(fired, 0);
}

/* A coarse timer that its own callback destroys, with the memory that it stands in. */
static int ended;

static void ends_itself(struct tickless_timeout *timeout, void *argument) {
    IS(argument == timeout, 1);
    IS(tickless_timeout_try_cancel(timeout), -EBUSY);
    IS(tickless_timeout_cancel_sync(timeout), -EDEADLK);
    IS(tickless_loop_free(the_loop), -EBUSY);
    IS(tickless_timeout_restart(timeout), 0);
    IS(tickless_timeout_destroy(timeout), 0);
    IS(tickless_timeout_destroy(timeout), -EINVAL);
    free(timeout);
    ended++;
}

static void coarse_callbacks_may_end_their_timer(void) {
    int i;
    for (i = 0; i < 10; i++) {
        struct tickless_timeout *timeout = malloc(sizeof *timeout);
        IS(tickless_timeout_init(timeout, ends_itself, timeout), 0);
        IS(tickless_timeout_start(timeout, (uint64_t)i % 3 * MS), 0);
    }
    until(&ended, 10);
    IS(ended, 10);
}

/* A handler that works on timers of the thread that it interrupts. */
#define TIMERS 64
static struct tickless_timer timers[TIMERS];
static struct tickless_timer in_handlers;
static volatile sig_atomic_t handled, refused, wrong;
static volatile int fired_in_loop;

static void handler(int number) {
    int answers[5], i;
    uint64_t at;
    int kept = errno;
    (void)number;
    handled++;
    answers[0] = tickless_timer_start(&in_handlers, 1000);
    answers[1] = tickless_timer_start(&timers[handled % TIMERS], 30 * MS);
    answers[2] = tickless_timer_cancel(&timers[(handled + 7) % TIMERS]);
    answers[3] = tickless_timer_pending(&in_handlers);
    answers[4] = tickless_loop_next(the_loop, &at);
    for (i = 0; i < 5; i++) {
        if (answers[i] == -EAGAIN) refused++;
        else if (answers[i] != 0 && answers[i] != 1) wrong = answers[i];
    }
    errno = kept;
}

static void signal_handlers_interrupt_calls(void) {
    struct itimerval none = {{0, 0}, {0, 0}};
    struct sigaction action;
    uint64_t hangs = now() + MINUTE, round;
    int i;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    IS(tickless_timer_init(&in_handlers, count, (void *)&fired_in_loop), 0);
    for (i = 0; i < TIMERS; i++) IS(tickless_timer_init(&timers[i], count, (void *)&fired_in_loop), 0);
    IS(sigaction(SIGALRM, &action, NULL), 0);
    for (round = 0; (handled < 300 || refused == 0) && now() < hangs; round++) {
        struct tickless_timer *timer = &timers[round % TIMERS];
        /* Once a round: one that came again and again would leave the thread no time on a slow machine. */
        struct itimerval soon = {{0, 0}, {0, (suseconds_t)(1 + round * 7 % 40)}};
        if (round % 16 == 0) IS(setitimer(ITIMER_REAL, &soon, NULL), 0);
        int answer = tickless_timer_start(timer, round % 3 * 50000);
        if (answer < 0) wrong = answer;
        answer = tickless_timer_cancel(&timers[round * 7 % TIMERS]);
        if (answer < 0) wrong = answer;
        answer = tickless_loop_turn(the_loop);
        if (answer < 0) wrong = answer;
    }
    IS(setitimer(ITIMER_REAL, &none, NULL), 0);
    IS(wrong, 0);
    IS(handled >= 300, 1);
    IS(refused > 0, 1);
    IS(fired_in_loop > 0, 1);
    /* All is as if no handler had interrupted: each timer fires once. */
    fired_in_loop = 0;
    for (i = 0; i < TIMERS; i++) IS(tickless_timer_start(&timers[i], MS) >= 0, 1);
    IS(tickless_timer_cancel(&in_handlers) >= 0, 1);
    until(&fired_in_loop, TIMERS);
    IS(fired_in_loop, TIMERS);
    for (i = 0; i < TIMERS; i++) IS(tickless_timer_destroy(&timers[i]), 0);
    IS(tickless_timer_destroy(&in_handlers), 0);
}

static volatile int calls;
static pid_t child = -1;

static void forks(struct tickless_timer *timer, void *argument) {
    (void)argument;
    fflush(stdout);
    child = fork();
    calls++;
    IS(tickless_timer_start(timer, MS), 0);
    IS(tickless_timer_cancel(timer), 1);
    IS(tickless_loop_turn(the_loop), -EDEADLK);
    IS(tickless_loop_free(the_loop), -EBUSY);
}

static void a_callback_may_fork(void) {
    struct tickless_timer first, second;
    volatile int fired = 0;
    int status = -1;
    IS(tickless_timer_init(&first, forks, NULL), 0);
    IS(tickless_timer_init(&second, count, (void *)&fired), 0);
    IS(tickless_timer_start(&first, MS), 0);
    IS(tickless_timer_start(&second, 5 * MS), 0);
    until(&calls, 1);
    /* Both processes go on with what was pending. */
    until(&fired, 1);
    IS(tickless_timer_start(&second, MS), 0);
    until(&fired, 2);
    IS(tickless_timer_destroy(&first), 0);
    IS(tickless_timer_destroy(&second), 0);
    if (child == 0) {
        fflush(stdout);
        _exit(faults != 0);
    }
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
}

int main(void) {
    IS(tickless_loop_new(&the_loop), 0);
    null_pointers_are_refused();
    timeouts_are_checked_as_timers_are();
    coarse_callbacks_may_end_their_timer();
    a_callback_may_fork();
    signal_handlers_interrupt_calls();
    IS(tickless_loop_free(the_loop), 0);
    if (faults == 0) puts("all held");
    return faults != 0;
}
