/* A timer of the kernel for each slot, in an epoll instance. Null if there are not as many descriptors. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "peer.h"

/* What the process has open besides. */
#define OTHERS 200

struct queue {
    int epoll;
    int *descriptors;
    unsigned char *is_armed;
    size_t slots;
    uint64_t fired;
};

void peer_timerfd_free(void *pointer) {
    struct queue *queue = pointer;
    for (size_t slot = 0; slot < queue->slots; slot++) close(queue->descriptors[slot]);
    close(queue->epoll);
    free(queue->descriptors);
    free(queue->is_armed);
    free(queue);
}

void *peer_timerfd_new(size_t slots) {
    struct rlimit limit = {slots + OTHERS, slots + OTHERS}, now;
    if (getrlimit(RLIMIT_NOFILE, &now) != 0) return NULL;
    if (limit.rlim_max < now.rlim_max) limit.rlim_max = now.rlim_max;
    if (now.rlim_cur < limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &limit) != 0) return NULL;
    struct queue *queue = calloc(1, sizeof *queue);
    queue->epoll = epoll_create1(EPOLL_CLOEXEC);
    queue->descriptors = calloc(slots, sizeof *queue->descriptors);
    queue->is_armed = calloc(slots, 1);
    for (size_t slot = 0; slot < slots; slot++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = slot};
        int made = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (made < 0 || epoll_ctl(queue->epoll, EPOLL_CTL_ADD, made, &event) != 0) {
            if (made >= 0) close(made);
            peer_timerfd_free(queue);
            return NULL;
        }
        queue->descriptors[slot] = made;
        queue->slots = slot + 1;
    }
    return queue;
}

uint64_t peer_timerfd_now(void *queue) {
    (void)queue;
    return peer_clock();
}

static int set(struct queue *queue, size_t slot, uint64_t at) {
    struct itimerspec time = {{0, 0}, {(time_t)(at / 1000000000u), (long)(at % 1000000000u)}};
    return timerfd_settime(queue->descriptors[slot], TFD_TIMER_ABSTIME, &time, NULL) == 0;
}

int peer_timerfd_arm(void *pointer, size_t slot, uint64_t deadline) {
    struct queue *queue = pointer;
    queue->is_armed[slot] = 1;
    return set(queue, slot, deadline ? deadline : 1);
}

int peer_timerfd_is_armed(void *queue, size_t slot) { return ((struct queue *)queue)->is_armed[slot]; }

int peer_timerfd_cancel(void *pointer, size_t slot) {
    struct queue *queue = pointer;
    int was_armed = queue->is_armed[slot];
    set(queue, slot, 0);
    queue->is_armed[slot] = 0;
    return was_armed;
}

void peer_timerfd_push(void *queue, size_t slot, uint64_t deadline) { peer_timerfd_arm(queue, slot, deadline); }

uint64_t peer_timerfd_fire(void *pointer) {
    struct queue *queue = pointer;
    struct epoll_event events[64];
    int count;
    while ((count = epoll_wait(queue->epoll, events, 64, 0)) > 0) {
        for (int at = 0; at < count; at++) {
            size_t slot = (size_t)events[at].data.u64;
            uint64_t expirations;
            if (read(queue->descriptors[slot], &expirations, sizeof expirations) == sizeof expirations) {
                queue->is_armed[slot] = 0;
                queue->fired++;
            }
        }
    }
    return queue->fired;
}
