/* A thread that polls for packets on a CPU of its own and never sleeps: each packet pushes the idle timeout of its
 * flow out, and a beat of a millisecond counts them. Give it an isolated CPU as argument; without, it takes the last one
 * that it may use. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "tickless.h"

#define MS UINT64_C(1000000)
#define FLOWS 16
#define PACKETS 400
#define IDLE (50 * MS)
#define BEAT MS

struct flow {
    struct tickless_timeout idle;
    int packets;
};

static int sockets[2];
static struct flow flows[FLOWS];
static int expired, beats, waiting;

static void idle(struct tickless_timeout *timeout, void *argument) {
    (void)timeout;
    (void)argument;
    expired++;
    waiting--;
}

static void beat(struct tickless_timer *timer, void *argument) {
    (void)argument;
    beats++;
    tickless_timer_forward(timer, BEAT, NULL);
}

static void *sends(void *argument) {
    struct timespec pause = {0, 100000};
    int i;
    (void)argument;
    for (i = 0; i < PACKETS; i++) {
        unsigned char flow = (unsigned char)(i % FLOWS);
        if (send(sockets[1], &flow, 1, 0) != 1) perror("send");
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void pin(int cpu) {
    cpu_set_t allowed, one;
    int i;
    if (cpu < 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &allowed)) cpu = i;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (cpu >= 0 && sched_setaffinity(0, sizeof one, &one) == 0) printf("on CPU %d\n", cpu);
}

int main(int count, char **arguments) {
    struct tickless_worker *worker;
    struct tickless_timer timer;
    pthread_t sender;
    uint64_t rounds = 0, next, now;
    int i, received = 0;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) != 0) return 1;
    if (pthread_create(&sender, NULL, sends, NULL) != 0) return 1;
    pin(count > 1 ? atoi(arguments[1]) : -1);
    if (tickless_worker_new(&worker) != 0) return 1;
    for (i = 0; i < FLOWS; i++) {
        tickless_timeout_init(&flows[i].idle, idle, &flows[i]);
        waiting += tickless_timeout_start(&flows[i].idle, 30000 * MS) == 0;
    }
    tickless_timer_init(&timer, beat, NULL);
    tickless_timer_start(&timer, BEAT);
    while (received < PACKETS || waiting > 0) {
        unsigned char flow;
        if (recv(sockets[0], &flow, 1, MSG_DONTWAIT) == 1) {
            received++;
            flows[flow].packets++;
            /* 0: the flow was idle, for its timeout had fired. */
            waiting += tickless_timeout_start(&flows[flow].idle, IDLE) == 0;
        }
        /* Two loads and a clock: a turn is taken when there is something to do. */
        if (tickless_worker_next(worker, &next) == 1 &&
            tickless_clock_now(TICKLESS_CLOCK_MONOTONIC, &now) == 0 && now >= next)
            tickless_worker_turn(worker);
        rounds++;
    }
    pthread_join(sender, NULL);
    printf("%d packets, %d beats, %d times a flow was idle, in %" PRIu64 " rounds\n", received, beats, expired, rounds);
    tickless_timer_destroy(&timer);
    for (i = 0; i < FLOWS; i++) tickless_timeout_destroy(&flows[i].idle);
    tickless_worker_free(worker);
    return received != PACKETS || beats == 0;
}
