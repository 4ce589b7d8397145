/* A beat of 10 ms and a timeout in one epoll loop. Prints how late the beats were. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tickless.h"

#define BEAT UINT64_C(10000000)

struct beat {
    struct tickless_timer timer;
    uint64_t latest;
    int left;
};

static int is_over;

static void beat(struct tickless_timer *timer, void *argument) {
    struct beat *self = argument;
    uint64_t at, now;
    tickless_timer_expires(timer, &at);
    tickless_clock_now(TICKLESS_CLOCK_MONOTONIC, &now);
    if (now - at > self->latest) self->latest = now - at;
    if (--self->left > 0) tickless_timer_forward(timer, BEAT, NULL);
}

static void over(struct tickless_timeout *timeout, void *argument) {
    (void)timeout;
    (void)argument;
    is_over = 1;
}

int main(void) {
    struct tickless_loop *loop;
    struct tickless_timeout timeout;
    struct beat self;
    struct epoll_event event;
    int epoll = epoll_create1(0);
    int error = tickless_loop_new(&loop);
    if (error < 0) {
        fprintf(stderr, "no loop: %s\n", strerror(-error));
        return 1;
    }
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    epoll_ctl(epoll, EPOLL_CTL_ADD, tickless_loop_fd(loop), &event);

    self.latest = 0;
    self.left = 20;
    tickless_timer_init(&self.timer, beat, &self);
    tickless_timer_start(&self.timer, BEAT);
    tickless_timeout_init(&timeout, over, NULL);
    tickless_timeout_start(&timeout, 30 * UINT64_C(1000000000));

    while (self.left > 0 && !is_over) {
        epoll_wait(epoll, &event, 1, -1);
        tickless_loop_turn(loop);
    }
    printf("%d beats missing, the latest was %" PRIu64 " ns late\n", self.left, self.latest);
    tickless_timer_destroy(&self.timer);
    tickless_timeout_destroy(&timeout);
    tickless_loop_free(loop);
    close(epoll);
    return self.left != 0;
}
