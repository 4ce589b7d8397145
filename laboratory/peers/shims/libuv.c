/* libuv: whole milliseconds from the loop's own time, which is read with `now`. Deadlines are rounded up. */
#include <stdlib.h>
#include <uv.h>

#include "peer.h"

struct queue {
    uv_loop_t loop;
    uv_timer_t *timers;
    size_t slots;
    uint64_t now;
    uint64_t fired;
};

static void on_timeout(uv_timer_t *timer) { ((struct queue *)timer->data)->fired++; }

void *peer_libuv_new(size_t slots) {
    struct queue *queue = calloc(1, sizeof *queue);
    uv_loop_init(&queue->loop);
    queue->timers = calloc(slots, sizeof *queue->timers);
    queue->slots = slots;
    for (size_t slot = 0; slot < slots; slot++) {
        uv_timer_init(&queue->loop, &queue->timers[slot]);
        queue->timers[slot].data = queue;
    }
    return queue;
}

void peer_libuv_free(void *pointer) {
    struct queue *queue = pointer;
    for (size_t slot = 0; slot < queue->slots; slot++) uv_close((uv_handle_t *)&queue->timers[slot], NULL);
    uv_run(&queue->loop, UV_RUN_DEFAULT);
    uv_loop_close(&queue->loop);
    free(queue->timers);
    free(queue);
}

uint64_t peer_libuv_now(void *pointer) {
    struct queue *queue = pointer;
    uv_update_time(&queue->loop);
    return queue->now = peer_clock();
}

int peer_libuv_arm(void *pointer, size_t slot, uint64_t deadline) {
    struct queue *queue = pointer;
    uint64_t after = (peer_from(queue->now, deadline) + 999999u) / 1000000u + 1u;
    return uv_timer_start(&queue->timers[slot], on_timeout, after, 0) == 0;
}

int peer_libuv_is_armed(void *pointer, size_t slot) {
    return uv_is_active((uv_handle_t *)&((struct queue *)pointer)->timers[slot]);
}

int peer_libuv_cancel(void *pointer, size_t slot) {
    int was_armed = peer_libuv_is_armed(pointer, slot);
    uv_timer_stop(&((struct queue *)pointer)->timers[slot]);
    return was_armed;
}

void peer_libuv_push(void *pointer, size_t slot, uint64_t deadline) { peer_libuv_arm(pointer, slot, deadline); }

uint64_t peer_libuv_fire(void *pointer) {
    struct queue *queue = pointer;
    uv_run(&queue->loop, UV_RUN_NOWAIT);
    return queue->fired;
}
