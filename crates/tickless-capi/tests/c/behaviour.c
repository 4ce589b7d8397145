/* What the C interface promises, as a program that ends with 0 if all of it held. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "turns.h"

static void fires_not_early(void) {
    struct tickless_timer timer;
    struct tickless_timeout timeout;
    uint64_t at = 0, start = now();
    int fired = 0;
    IS(tickless_timer_init(&timer, count, &fired), 0);
    IS(tickless_timer_pending(&timer), 0);
    IS(tickless_timer_start(&timer, 5 * MS), 0);
    IS(tickless_timer_start(&timer, 2 * MS), 1);
    IS(tickless_timer_pending(&timer), 1);
    IS(tickless_loop_next(the_loop, &at), 1);
    IS(tickless_timer_expires(&timer, &at), 0);
    IS(at >= start + 2 * MS, 1);
    until(&fired, 1);
    IS(now() >= at, 1);
    IS(tickless_timer_pending(&timer), 0);
    IS(tickless_timer_cancel(&timer), 0);
    IS(tickless_timer_restart(&timer), 0);
    IS(tickless_timer_cancel(&timer), 1);
    IS(tickless_loop_next(the_loop, &at), 0);
    IS(tickless_timer_destroy(&timer), 0);

    IS(tickless_timeout_init(&timeout, count_timeout, &fired), 0);
    start = now();
    IS(tickless_timeout_start(&timeout, 3 * MS), 0);
    until(&fired, 2);
    IS(now() >= start + 3 * MS, 1);
    IS(tickless_timeout_start_at(&timeout, 1), 0);
    until(&fired, 3);
    IS(tickless_timeout_destroy(&timeout), 0);
}

static void knows_the_clocks(void) {
    static const uint32_t clocks[] = {TICKLESS_CLOCK_REALTIME, TICKLESS_CLOCK_MONOTONIC,
                                      TICKLESS_CLOCK_BOOTTIME, TICKLESS_CLOCK_TAI};
    int fired = 0;
    size_t i;
    for (i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        struct tickless_timer timer;
        struct tickless_timer_config config;
        uint64_t shown = 0;
        memset(&config, 0, sizeof config);
        config.size = sizeof config;
        config.callback = count;
        config.argument = &fired;
        config.slack_ns = 1000;
        config.clock = clocks[i];
        IS(tickless_timer_init_config(&timer, &config), 0);
        IS(tickless_clock_now(clocks[i], &shown), 0);
        IS(tickless_timer_start_at(&timer, shown + MS), 0);
        until(&fired, (int)i + 1);
        if (clocks[i] == TICKLESS_CLOCK_REALTIME) IS(tickless_timer_start(&timer, MS), -EINVAL);
        IS(tickless_timer_destroy(&timer), 0);
    }
}

static void refuses_nonsense(void) {
    struct tickless_timer timer, copy;
    struct tickless_timeout timeout;
    struct {
        struct tickless_timer_config config;
        uint64_t more;
    } newer;
    uint64_t word;
    int fired = 0;
    memset(&timer, 0xAA, sizeof timer);
    IS(tickless_timer_start(&timer, 1), -EINVAL);
    IS(tickless_timer_destroy(&timer), -EINVAL);
    IS(tickless_timer_start(NULL, 1), -EINVAL);
    IS(tickless_timer_start((struct tickless_timer *)(void *)((char *)&timer + 4), 1), -EINVAL);
    IS(tickless_timer_init(NULL, count, NULL), -EINVAL);
    IS(tickless_timer_init(&timer, NULL, NULL), -EINVAL);
    IS(tickless_timer_init(&timer, count, &fired), 0);
    IS(tickless_timer_init(&timer, count, &fired), -EBUSY);
    IS(tickless_timeout_start((struct tickless_timeout *)(void *)&timer, 1), -EINVAL);
    memcpy(&copy, &timer, sizeof copy);
    IS(tickless_timer_start(&copy, 1), -EINVAL);
    IS(tickless_timer_start(&timer, UINT64_MAX), -EINVAL);
    IS(tickless_timer_start(&timer, (uint64_t)-5), -EINVAL);
    IS(tickless_timer_start(&timer, INT64_MAX), -EOVERFLOW);
    IS(tickless_timer_start_at(&timer, INT64_MAX), -EOVERFLOW);
    IS(tickless_timer_start_at(&timer, UINT64_MAX), -EINVAL);
    IS(tickless_timer_restart(&timer), -EINVAL);
    IS(tickless_timer_forward(&timer, 0, NULL), -EINVAL);
    IS(tickless_timer_forward(&timer, UINT64_MAX, NULL), -EINVAL);
    IS(tickless_timer_expires(&timer, NULL), -EINVAL);
    IS(tickless_timer_pending(&timer), 0);
    IS(tickless_timer_start(&timer, 1000 * MS), 0);
    IS(tickless_timer_forward(&timer, 1, NULL), -EBUSY);
    IS(tickless_loop_free(the_loop), -EBUSY);
    IS(tickless_timer_destroy(&timer), 0);
    IS(tickless_timer_destroy(&timer), -EINVAL);
    IS(tickless_timer_cancel(&timer), -EINVAL);

    memset(&newer, 0, sizeof newer);
    newer.config.size = sizeof newer.config;
    newer.config.callback = count;
    newer.config.argument = &fired;
    newer.config.clock = 5;
    IS(tickless_timer_init_config(&timer, &newer.config), -EINVAL);
    newer.config.clock = TICKLESS_CLOCK_MONOTONIC;
    newer.config.flags = 1;
    IS(tickless_timer_init_config(&timer, &newer.config), -EINVAL);
    newer.config.flags = 0;
    newer.config.slack_ns = UINT64_MAX;
    IS(tickless_timer_init_config(&timer, &newer.config), -EINVAL);
    newer.config.slack_ns = 0;
    newer.config.size = 8;
    IS(tickless_timer_init_config(&timer, &newer.config), -EINVAL);
    newer.config.size = sizeof newer;
    newer.more = 1;
    IS(tickless_timer_init_config(&timer, &newer.config), -EINVAL);
    newer.more = 0;
    IS(tickless_timer_init_config(&timer, &newer.config), 0);
    IS(tickless_timer_destroy(&timer), 0);
    IS(tickless_timer_init_config(&timer, NULL), -EINVAL);

    IS(tickless_timeout_init(&timeout, NULL, NULL), -EINVAL);
    IS(tickless_clock_now(3, &word), -EINVAL);
    IS(tickless_clock_now(TICKLESS_CLOCK_TAI, NULL), -EINVAL);
    IS(tickless_loop_new(NULL), -EINVAL);
    IS(tickless_loop_turn(NULL), -EINVAL);
    IS(tickless_loop_turn((struct tickless_loop *)&word), -EPERM);
    IS(tickless_worker_turn((struct tickless_worker *)the_loop), -EINVAL);
    {
        struct tickless_loop *second;
        IS(tickless_loop_new(&second), -EEXIST);
    }
    IS(fired, 0);
}

struct record {
    struct tickless_timer timer;
    struct record *other;
    int *calls;
    int left;
};

static void frees_itself(struct tickless_timer *timer, void *argument) {
    struct record *record = argument;
    int *calls = record->calls;
    IS(timer == &record->timer, 1);
    IS(tickless_timer_try_cancel(timer), -EBUSY);
    IS(tickless_timer_cancel_sync(timer), -EDEADLK);
    IS(tickless_loop_turn(the_loop), -EDEADLK);
    IS(tickless_loop_free(the_loop), -EBUSY);
    IS(tickless_timer_start(timer, MS), 0);
    IS(tickless_timer_cancel(timer), 1);
    IS(tickless_timer_destroy(timer), 0);
    /* A new timer in its place is not the one whose callback this is. */
    IS(tickless_timer_init(timer, count, NULL), 0);
    IS(tickless_timer_cancel_sync(timer), 0);
    IS(tickless_timer_destroy(timer), 0);
    memset(record, 0xEE, sizeof *record);
    free(record);
    ++*calls;
}

static void frees_the_other(struct tickless_timer *timer, void *argument) {
    struct record *record = argument;
    int *calls = record->calls;
    (void)timer;
    IS(tickless_timer_pending(&record->other->timer), 1);
    IS(tickless_timer_destroy(&record->other->timer), 0);
    free(record->other);
    IS(tickless_timer_destroy(&record->timer), 0);
    free(record);
    ++*calls;
}

static void again(struct tickless_timer *timer, void *argument) {
    struct record *record = argument;
    uint64_t passed = 0, before = 0, after = 0;
    ++*record->calls;
    IS(tickless_timer_expires(timer, &before), 0);
    if (--record->left > 0) {
        IS(tickless_timer_forward(timer, MS, &passed), 0);
        IS(tickless_timer_expires(timer, &after), 0);
        IS(after - before, MS * (passed + 1));
    }
}

static void callbacks_may_do_anything(void) {
    int calls = 0, i;
    struct record *record, periodic;
    for (i = 0; i < 10; i++) {
        record = calloc(1, sizeof *record);
        record->calls = &calls;
        IS(tickless_timer_init(&record->timer, frees_itself, record), 0);
        IS(tickless_timer_start(&record->timer, (uint64_t)i % 3 * MS), 0);
    }
    until(&calls, 10);

    /* Both are due in one turn: each destroys the other one, whichever comes first. */
    calls = 0;
    for (i = 0; i < 10; i++) {
        struct record *other = calloc(1, sizeof *other);
        record = calloc(1, sizeof *record);
        record->calls = other->calls = &calls;
        record->other = other;
        other->other = record;
        IS(tickless_timer_init(&record->timer, frees_the_other, record), 0);
        IS(tickless_timer_init(&other->timer, frees_the_other, other), 0);
        IS(tickless_timer_start(&record->timer, 0), 0);
        IS(tickless_timer_start(&other->timer, 0), 0);
    }
    until(&calls, 10);
    IS(calls, 10);

    memset(&periodic, 0, sizeof periodic);
    calls = 0;
    periodic.calls = &calls;
    periodic.left = 5;
    IS(tickless_timer_init(&periodic.timer, again, &periodic), 0);
    IS(tickless_timer_start(&periodic.timer, MS), 0);
    until(&calls, 5);
    IS(tickless_timer_pending(&periodic.timer), 0);
    IS(tickless_timer_destroy(&periodic.timer), 0);
}

static struct tickless_timer shared;

static void *elsewhere(void *argument) {
    struct tickless_loop *own;
    struct tickless_timer timer;
    uint64_t at;
    (void)argument;
    IS(tickless_timer_start(&shared, 1), -EPERM);
    IS(tickless_timer_init(&timer, count, NULL), -EPERM);
    IS(tickless_loop_turn(the_loop), -EPERM);
    IS(tickless_loop_new(&own), 0);
    IS(tickless_timer_start(&shared, 1), -EPERM);
    IS(tickless_timer_cancel_sync(&shared), -EPERM);
    IS(tickless_timer_destroy(&shared), -EPERM);
    IS(tickless_timer_pending(&shared), -EPERM);
    IS(tickless_loop_fd(the_loop), -EPERM);
    IS(tickless_loop_next(the_loop, &at), -EPERM);
    IS(tickless_loop_free(the_loop), -EPERM);
    IS(tickless_loop_free(own), 0);
    IS(tickless_loop_free(own), -EPERM);
    return NULL;
}

#define LEFT 64
static struct tickless_timer left[LEFT];
static struct tickless_timeout left_timeouts[LEFT];

static void *leaves_them_behind(void *argument) {
    struct tickless_loop *own;
    struct tickless_worker *worker;
    int i;
    if (argument != NULL) IS(tickless_loop_new(&own), 0);
    else IS(tickless_worker_new(&worker), 0);
    for (i = 0; i < LEFT; i++) {
        IS(tickless_timer_init(&left[i], count, argument), 0);
        IS(tickless_timer_start(&left[i], MS + (uint64_t)i * MS / 16), 0);
        IS(tickless_timeout_init(&left_timeouts[i], count_timeout, argument), 0);
        IS(tickless_timeout_start(&left_timeouts[i], (uint64_t)i * MS / 8), 0);
    }
    return NULL;
}

/* The memory of timers is the program's own again when their thread has ended. */
static void the_end_of_a_thread_cancels_its_timers(void) {
    static const int of_workers = 0, of_loops = 1;
    pthread_t thread;
    int fired = 0, kind, round;
    size_t i;
    for (kind = of_workers; kind <= of_loops; kind++) {
        for (round = 0; round < 4; round++) {
            int changed = 0;
            IS(pthread_create(&thread, NULL, leaves_them_behind, kind == of_loops ? &fired : NULL), 0);
            IS(pthread_join(thread, NULL), 0);
            IS(tickless_timer_destroy(&left[0]), -EPERM);
            memset(left, 0xEE, sizeof left);
            memset(left_timeouts, 0xEE, sizeof left_timeouts);
            usleep(20000);
            for (i = 0; i < sizeof left; i++) changed += ((unsigned char *)left)[i] != 0xEE;
            for (i = 0; i < sizeof left_timeouts; i++) changed += ((unsigned char *)left_timeouts)[i] != 0xEE;
            IS(changed, 0);
        }
    }
    IS(fired, 0);
}

static pthread_key_t key;
static struct tickless_loop *freed_late;

static void frees_its_loop(void *argument) {
    IS(tickless_timer_destroy(argument), 0);
    IS(tickless_loop_free(freed_late), 0);
}

static void *frees_its_loop_at_its_end(void *argument) {
    static struct tickless_timer timer;
    IS(tickless_loop_new(&freed_late), 0);
    IS(tickless_timer_init(&timer, count, argument), 0);
    IS(tickless_timer_start(&timer, 1000 * MS), 0);
    IS(pthread_setspecific(key, &timer), 0);
    return NULL;
}

static void destructors_of_a_thread_have_its_timers(void) {
    pthread_t thread;
    int fired = 0;
    IS(pthread_key_create(&key, frees_its_loop), 0);
    IS(pthread_create(&thread, NULL, frees_its_loop_at_its_end, &fired), 0);
    IS(pthread_join(thread, NULL), 0);
    IS(pthread_key_delete(key), 0);
}

static void other_threads_are_refused(void) {
    pthread_t thread;
    int fired = 0;
    IS(tickless_timer_init(&shared, count, &fired), 0);
    IS(tickless_timer_start(&shared, 10000 * MS), 0);
    IS(pthread_create(&thread, NULL, elsewhere, NULL), 0);
    IS(pthread_join(thread, NULL), 0);
    IS(tickless_timer_cancel_sync(&shared), 1);
    IS(tickless_timer_destroy(&shared), 0);
}

#define MANY 5000

static void thousands(void) {
    static struct tickless_timer timers[MANY];
    static struct tickless_timeout timeouts[MANY];
    int exact = 0, coarse = 0, i;
    for (i = 0; i < MANY; i++) {
        IS(tickless_timer_init(&timers[i], count, &exact), 0);
        IS(tickless_timeout_init(&timeouts[i], count_timeout, &coarse), 0);
        IS(tickless_timer_start(&timers[i], (uint64_t)(i * 7919 % 20000) * 1000), 0);
        IS(tickless_timeout_start(&timeouts[i], (uint64_t)(i * 7919 % 20000) * 1000), 0);
    }
    for (i = 0; i < MANY; i += 2) {
        int timer = tickless_timer_cancel(&timers[i]), timeout = tickless_timeout_cancel(&timeouts[i]);
        IS(timer, 1);
        IS(timeout, 1);
    }
    until(&exact, MANY / 2);
    until(&coarse, MANY / 2);
    IS(exact, MANY / 2);
    IS(coarse, MANY / 2);
    for (i = 0; i < MANY; i++) {
        IS(tickless_timer_destroy(&timers[i]), 0);
        IS(tickless_timeout_destroy(&timeouts[i]), 0);
    }
}

static void works_in_epoll(void) {
    struct epoll_event event, ready;
    struct tickless_timer timer;
    int epoll = epoll_create1(EPOLL_CLOEXEC), fired = 0, answer = 0;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.ptr = the_loop;
    IS(epoll_ctl(epoll, EPOLL_CTL_ADD, tickless_loop_fd(the_loop), &event), 0);
    IS(tickless_timer_init(&timer, count, &fired), 0);
    IS(tickless_timer_start(&timer, 3 * MS), 0);
    /* The kernel may find a deadline passed a little before a turn does. */
    while (answer == 0) {
        IS(epoll_wait(epoll, &ready, 1, 30000), 1);
        IS(ready.data.ptr == the_loop, 1);
        answer = tickless_loop_turn(the_loop);
    }
    IS(answer, 1);
    IS(fired, 1);
    IS(epoll_wait(epoll, &ready, 1, 0), 0);
    IS(tickless_timer_destroy(&timer), 0);
    close(epoll);
}

static void child_of_a_fork_keeps_its_timers(void) {
    struct tickless_timer timer;
    int fired = 0, status = 0;
    pid_t child;
    IS(tickless_timer_init(&timer, count, &fired), 0);
    IS(tickless_timer_start(&timer, 5 * MS), 0);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        faults = 0;
        until(&fired, 1);
        fflush(stdout);
        _exit(faults != 0);
    }
    until(&fired, 1);
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    IS(tickless_timer_destroy(&timer), 0);
}

static void *wakes(void *worker) {
    usleep(5000);
    IS(tickless_worker_unpark(worker), 0);
    return NULL;
}

static void *works(void *argument) {
    struct tickless_worker *worker;
    struct tickless_timer timer;
    pthread_t thread;
    uint64_t at;
    int fired = 0;
    (void)argument;
    IS(tickless_worker_new(&worker), 0);
    IS(tickless_worker_next(worker, &at), 0);
    IS(tickless_timer_init(&timer, count, &fired), 0);
    IS(tickless_timer_start(&timer, MS), 0);
    while (fired == 0) IS(tickless_worker_park(worker) >= 0, 1);
    IS(pthread_create(&thread, NULL, wakes, worker), 0);
    IS(tickless_worker_park(worker), 0);
    IS(pthread_join(thread, NULL), 0);
    IS(tickless_worker_turn(worker), 0);
    IS(tickless_loop_turn((struct tickless_loop *)worker), -EINVAL);
    IS(tickless_worker_unpark(NULL), -EINVAL);
    IS(tickless_timer_destroy(&timer), 0);
    IS(tickless_worker_free(worker), 0);
    return NULL;
}

int main(void) {
    pthread_t thread;
    IS(tickless_abi_version(), TICKLESS_ABI_VERSION);
    IS(tickless_loop_new(&the_loop), 0);
    fires_not_early();
    knows_the_clocks();
    refuses_nonsense();
    callbacks_may_do_anything();
    other_threads_are_refused();
    the_end_of_a_thread_cancels_its_timers();
    destructors_of_a_thread_have_its_timers();
    thousands();
    works_in_epoll();
    child_of_a_fork_keeps_its_timers();
    IS(pthread_create(&thread, NULL, works, NULL), 0);
    IS(pthread_join(thread, NULL), 0);
    IS(tickless_loop_free(the_loop), 0);
    if (faults == 0) puts("all held");
    return faults != 0;
}
