/* Exact timers in an event loop of libuv: cc libuv.c -ltickless -luv */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <uv.h>

#include "tickless.h"

#define BEAT UINT64_C(1000000)

static int beats;

static void beat(struct tickless_timer *timer, void *poll) {
    if (++beats == 20) uv_close(poll, NULL);
    tickless_timer_forward(timer, BEAT, NULL);
}

static void due(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    tickless_loop_turn(poll->data);
}

int main(void) {
    struct tickless_loop *loop;
    struct tickless_timer timer;
    uv_poll_t poll;
    if (tickless_loop_new(&loop) < 0) return 1;
    uv_poll_init(uv_default_loop(), &poll, tickless_loop_fd(loop));
    poll.data = loop;
    uv_poll_start(&poll, UV_READABLE, due);
    tickless_timer_init(&timer, beat, &poll);
    tickless_timer_start(&timer, BEAT);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    printf("%d beats\n", beats);
    tickless_timer_destroy(&timer);
    tickless_loop_free(loop);
    return uv_loop_close(uv_default_loop()) != 0 || beats != 20;
}
