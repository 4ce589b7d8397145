/* The timers of `tickless.h`, as C programs have them. The file that includes this one sets PREFIX, and TIMEOUT for
 * coarse timers, LOOP for an event loop of the caller's, CHECKS for the checks of each call and nothing behind them. */
#include <stdlib.h>

#include <tickless.h>

#include "peer.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(b) JOIN(PREFIX, b)

#ifdef TIMEOUT
#define OF(verb) tickless_timeout_##verb
#define KIND struct tickless_timeout
#else
#define OF(verb) tickless_timer_##verb
#define KIND struct tickless_timer
#endif

#ifdef LOOP
#define RUNNER struct tickless_loop
#define RUN(verb) tickless_loop_##verb
#else
#define RUNNER struct tickless_worker
#define RUN(verb) tickless_worker_##verb
#endif

struct queue {
    RUNNER *runner;
    KIND *timers;
    size_t slots;
    uint64_t fired;
};

static void on_expiry(KIND *timer, void *queue) {
    (void)timer;
    ((struct queue *)queue)->fired++;
}

void *NAME(new)(size_t slots) {
    struct queue *queue = calloc(1, sizeof *queue);
    queue->timers = calloc(slots, sizeof *queue->timers);
    queue->slots = slots;
    if (RUN(new)(&queue->runner) != 0) return NULL;
    for (size_t slot = 0; slot < slots; slot++)
        if (OF(init)(&queue->timers[slot], on_expiry, queue) != 0) return NULL;
    return queue;
}

void NAME(free)(void *pointer) {
    struct queue *queue = pointer;
    for (size_t slot = 0; slot < queue->slots; slot++) OF(destroy)(&queue->timers[slot]);
    RUN(free)(queue->runner);
    free(queue->timers);
    free(queue);
}

uint64_t NAME(now)(void *queue) {
    uint64_t now = 0;
    (void)queue;
    tickless_clock_now(TICKLESS_CLOCK_MONOTONIC, &now);
    return now;
}

#ifdef CHECKS
/* A question does no more than the checks: all calls are that. */
#define ASK(queue, slot) OF(pending)(&((struct queue *)queue)->timers[slot])

int NAME(arm)(void *queue, size_t slot, uint64_t deadline) {
    (void)deadline;
    return ASK(queue, slot) == 0;
}

int NAME(is_armed)(void *queue, size_t slot) { return ASK(queue, slot) == 0; }

int NAME(cancel)(void *queue, size_t slot) { return ASK(queue, slot) == 0; }

void NAME(push)(void *queue, size_t slot, uint64_t deadline) {
    (void)deadline;
    ASK(queue, slot);
}
#else
int NAME(arm)(void *queue, size_t slot, uint64_t deadline) {
    return OF(start_at)(&((struct queue *)queue)->timers[slot], deadline) == 0;
}

int NAME(is_armed)(void *queue, size_t slot) { return OF(pending)(&((struct queue *)queue)->timers[slot]); }

int NAME(cancel)(void *queue, size_t slot) { return OF(cancel)(&((struct queue *)queue)->timers[slot]) == 1; }

void NAME(push)(void *queue, size_t slot, uint64_t deadline) {
    OF(start_at)(&((struct queue *)queue)->timers[slot], deadline);
}
#endif

uint64_t NAME(fire)(void *pointer) {
    struct queue *queue = pointer;
    RUN(turn)(queue->runner);
    return queue->fired;
}
