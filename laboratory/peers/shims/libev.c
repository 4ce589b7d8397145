/* libev: relative times count from the loop's own, which is read with `now`. */
#include <ev.h>
#include <stdlib.h>

#include "peer.h"

struct queue {
    struct ev_loop *loop;
    ev_timer *timers;
    uint64_t now;
    uint64_t fired;
};

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)loop;
    (void)events;
    ((struct queue *)timer->data)->fired++;
}

void *peer_libev_new(size_t slots) {
    struct queue *queue = calloc(1, sizeof *queue);
    queue->loop = ev_loop_new(EVFLAG_AUTO);
    queue->timers = calloc(slots, sizeof *queue->timers);
    for (size_t slot = 0; slot < slots; slot++) {
        ev_init(&queue->timers[slot], on_timeout);
        queue->timers[slot].data = queue;
    }
    return queue;
}

void peer_libev_free(void *pointer) {
    struct queue *queue = pointer;
    ev_loop_destroy(queue->loop);
    free(queue->timers);
    free(queue);
}

uint64_t peer_libev_now(void *pointer) {
    struct queue *queue = pointer;
    ev_now_update(queue->loop);
    return queue->now = peer_clock();
}

int peer_libev_arm(void *pointer, size_t slot, uint64_t deadline) {
    struct queue *queue = pointer;
    ev_timer_set(&queue->timers[slot], (double)peer_from(queue->now, deadline) / 1e9, 0.);
    ev_timer_start(queue->loop, &queue->timers[slot]);
    return ev_is_active(&queue->timers[slot]);
}

int peer_libev_cancel(void *pointer, size_t slot) {
    struct queue *queue = pointer;
    int was_armed = ev_is_active(&queue->timers[slot]);
    ev_timer_stop(queue->loop, &queue->timers[slot]);
    return was_armed;
}

/* The way of its documentation to move a timer: a repeating one is moved in place. */
void peer_libev_push(void *pointer, size_t slot, uint64_t deadline) {
    struct queue *queue = pointer;
    ev_timer *timer = &queue->timers[slot];
    double after = (double)peer_from(queue->now, deadline) / 1e9;
    timer->repeat = after > 0. ? after : 1e-9;
    ev_timer_again(queue->loop, timer);
    timer->repeat = 0.;
}

int peer_libev_is_armed(void *pointer, size_t slot) {
    return ev_is_active(&((struct queue *)pointer)->timers[slot]);
}

uint64_t peer_libev_fire(void *pointer) {
    struct queue *queue = pointer;
    ev_run(queue->loop, EVRUN_NOWAIT);
    return queue->fired;
}
