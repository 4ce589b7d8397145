/* What each shim of a library provides, under the library's prefix. Times are nanoseconds of CLOCK_MONOTONIC. Slots are
 * numbered from 0. A queue is used by the thread that made it. */
#ifndef TICKLESS_PEER_H
#define TICKLESS_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define PEER(prefix)                                                            \
    void *prefix##_new(size_t slots);                                           \
    void prefix##_free(void *queue);                                            \
    uint64_t prefix##_now(void *queue);                                         \
    int prefix##_arm(void *queue, size_t slot, uint64_t deadline);              \
    int prefix##_cancel(void *queue, size_t slot);                              \
    void prefix##_push(void *queue, size_t slot, uint64_t deadline);            \
    int prefix##_is_armed(void *queue, size_t slot);                            \
    uint64_t prefix##_fire(void *queue);

static inline uint64_t peer_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time from one point to another, or none. */
static inline uint64_t peer_from(uint64_t now, uint64_t deadline) { return deadline > now ? deadline - now : 0; }

#endif
