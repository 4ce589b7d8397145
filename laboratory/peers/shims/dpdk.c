/* DPDK's rte_timer: a skip list for each lcore, times in cycles from now, which it reads itself. Without huge pages and
 * devices: the timers use neither. */
#include <pthread.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_timer.h>
#include <stdlib.h>

#include "peer.h"

struct queue {
    struct rte_timer *timers;
    size_t slots;
    uint64_t now;
    /* Of the thread that made the queue; others arm there, too. */
    unsigned lcore;
    double cycles_per_nano;
    uint64_t fired;
};

static void on_timeout(struct rte_timer *timer, void *queue) {
    (void)timer;
    ((struct queue *)queue)->fired++;
}

/* On a thread of its own: it pins the thread that calls it. */
static void *start(void *result) {
    char *arguments[] = {"tickless", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",
                         "--log-level=1", "-m", "64", "--lcores", "0"};
    *(int *)result = rte_eal_init(sizeof arguments / sizeof *arguments, arguments);
    if (*(int *)result >= 0) *(int *)result = rte_timer_subsystem_init();
    return NULL;
}

static int started = -1;
static void start_once(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, start, &started) == 0) pthread_join(thread, NULL);
}

/* Null if DPDK cannot run here. */
void *peer_dpdk_new(size_t slots) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_once);
    if (started < 0 || (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() < 0)) return NULL;
    struct queue *queue = calloc(1, sizeof *queue);
    queue->timers = calloc(slots, sizeof *queue->timers);
    queue->slots = slots;
    queue->lcore = rte_lcore_id();
    queue->cycles_per_nano = (double)rte_get_timer_hz() / 1e9;
    for (size_t slot = 0; slot < slots; slot++) rte_timer_init(&queue->timers[slot]);
    return queue;
}

void peer_dpdk_free(void *pointer) {
    struct queue *queue = pointer;
    for (size_t slot = 0; slot < queue->slots; slot++) rte_timer_stop(&queue->timers[slot]);
    rte_thread_unregister();
    free(queue->timers);
    free(queue);
}

uint64_t peer_dpdk_now(void *pointer) { return ((struct queue *)pointer)->now = peer_clock(); }

int peer_dpdk_arm(void *pointer, size_t slot, uint64_t deadline) {
    struct queue *queue = pointer;
    uint64_t cycles = (uint64_t)((double)peer_from(queue->now, deadline) * queue->cycles_per_nano) + 1u;
    return rte_timer_reset(&queue->timers[slot], cycles, SINGLE, queue->lcore, on_timeout, queue) == 0;
}

int peer_dpdk_is_armed(void *pointer, size_t slot) {
    return rte_timer_pending(&((struct queue *)pointer)->timers[slot]);
}

int peer_dpdk_cancel(void *pointer, size_t slot) {
    int was_armed = peer_dpdk_is_armed(pointer, slot);
    rte_timer_stop(&((struct queue *)pointer)->timers[slot]);
    return was_armed;
}

void peer_dpdk_push(void *queue, size_t slot, uint64_t deadline) { peer_dpdk_arm(queue, slot, deadline); }

uint64_t peer_dpdk_fire(void *pointer) {
    rte_timer_manage();
    return ((struct queue *)pointer)->fired;
}
