/* Exact timers in an event loop of libevent: cc libevent.c -ltickless -levent */
#include <event2/event.h>
#include <stdio.h>

#include "tickless.h"

#define BEAT UINT64_C(1000000)

static int beats;

static void beat(struct tickless_timer *timer, void *base) {
    if (++beats == 20) event_base_loopbreak(base);
    tickless_timer_forward(timer, BEAT, NULL);
}

static void due(evutil_socket_t descriptor, short what, void *loop) {
    (void)descriptor;
    (void)what;
    tickless_loop_turn(loop);
}

int main(void) {
    struct event_base *base = event_base_new();
    struct tickless_loop *loop;
    struct tickless_timer timer;
    struct event *event;
    if (base == NULL || tickless_loop_new(&loop) < 0) return 1;
    event = event_new(base, tickless_loop_fd(loop), EV_READ | EV_PERSIST, due, loop);
    event_add(event, NULL);
    tickless_timer_init(&timer, beat, base);
    tickless_timer_start(&timer, BEAT);
    event_base_dispatch(base);
    printf("%d beats\n", beats);
    tickless_timer_destroy(&timer);
    event_free(event);
    tickless_loop_free(loop);
    event_base_free(base);
    return beats != 20;
}
