/* libevent, with its heap or with common timeouts; PREFIX and COMMON are set by the file that includes this one. */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>
#include <stdlib.h>

#include "peer.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(b) JOIN(PREFIX, b)

#ifdef COMMON
/* A list for each whole second up to a minute: what a program has a few of. More than 256 there cannot be. */
#define LISTS 61
#endif

struct queue {
    struct event_base *base;
    struct event *events;
    size_t slots;
    uint64_t now;
    uint64_t fired;
#ifdef COMMON
    struct timeval lists[LISTS];
#endif
};

static void on_timeout(evutil_socket_t none, short what, void *queue) {
    (void)none;
    (void)what;
    ((struct queue *)queue)->fired++;
}

static void *made(size_t slots, int flags) {
    struct queue *queue = calloc(1, sizeof *queue);
    struct event_config *config = event_config_new();
    event_config_set_flag(config, flags | EVENT_BASE_FLAG_PRECISE_TIMER);
    queue->base = event_base_new_with_config(config);
    event_config_free(config);
    queue->events = calloc(slots, sizeof *queue->events);
    queue->slots = slots;
    for (size_t slot = 0; slot < slots; slot++) event_assign(&queue->events[slot], queue->base, -1, 0, on_timeout, queue);
#ifdef COMMON
    for (int second = 0; second < LISTS; second++) {
        struct timeval plain = {second, second ? 0 : 50000};
        queue->lists[second] = *event_base_init_common_timeout(queue->base, &plain);
    }
#endif
    return queue;
}

void *NAME(new)(size_t slots) { return made(slots, EVENT_BASE_FLAG_NOLOCK); }

void NAME(free)(void *pointer) {
    struct queue *queue = pointer;
    for (size_t slot = 0; slot < queue->slots; slot++) event_del(&queue->events[slot]);
    event_base_free(queue->base);
    free(queue->events);
    free(queue);
}

uint64_t NAME(now)(void *queue) { return ((struct queue *)queue)->now = peer_clock(); }

int NAME(arm)(void *pointer, size_t slot, uint64_t deadline) {
    struct queue *queue = pointer;
    uint64_t left = peer_from(queue->now, deadline);
#ifdef COMMON
    /* Rounded up to a list, the last of which is for all that is longer. */
    uint64_t second = left < 50000000u ? 0 : (left + 999999999u) / 1000000000u;
    if (second < LISTS) return event_add(&queue->events[slot], &queue->lists[second]) == 0;
#endif
    struct timeval after = {(time_t)(left / 1000000000u), (suseconds_t)(left % 1000000000u / 1000u + 1u)};
    if (after.tv_usec > 999999) after.tv_sec++, after.tv_usec = 0;
    return event_add(&queue->events[slot], &after) == 0;
}

int NAME(is_armed)(void *pointer, size_t slot) {
    return event_pending(&((struct queue *)pointer)->events[slot], EV_TIMEOUT, NULL) != 0;
}

int NAME(cancel)(void *pointer, size_t slot) {
    int was_armed = NAME(is_armed)(pointer, slot);
    event_del(&((struct queue *)pointer)->events[slot]);
    return was_armed;
}

void NAME(push)(void *queue, size_t slot, uint64_t deadline) { NAME(arm)(queue, slot, deadline); }

uint64_t NAME(fire)(void *pointer) {
    struct queue *queue = pointer;
    event_base_loop(queue->base, EVLOOP_NONBLOCK);
    return queue->fired;
}
