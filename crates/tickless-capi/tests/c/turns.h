/* A loop that is turned until something happened, for the test programs. */
#include <poll.h>

#include "is.h"
#include "tickless.h"

#define MS UINT64_C(1000000)
#define MINUTE (60000 * MS)

static struct tickless_loop *the_loop;

static uint64_t now(void) {
    uint64_t shown = 0;
    IS(tickless_clock_now(TICKLESS_CLOCK_MONOTONIC, &shown), 0);
    return shown;
}

/* Turns until the counter has a value; a minute is for what hangs. */
static void until(const volatile int *counter, int value) {
    struct pollfd descriptor;
    uint64_t hangs = now() + MINUTE;
    descriptor.fd = tickless_loop_fd(the_loop);
    descriptor.events = POLLIN;
    while (*counter < value && now() < hangs) {
        poll(&descriptor, 1, 100);
        IS(tickless_loop_turn(the_loop) >= 0, 1);
    }
    IS(*counter >= value, 1);
}

static void count(struct tickless_timer *timer, void *argument) {
    (void)timer;
    ++*(volatile int *)argument;
}

static void count_timeout(struct tickless_timeout *timeout, void *argument) {
    (void)timeout;
    ++*(volatile int *)argument;
}
