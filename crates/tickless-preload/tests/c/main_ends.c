/*
 * The main thread ends by pthread_exit: the process ends with 0 at the end of its last thread, though its timers are
 * armed, and not before. `main_ends first` arms a timer on the main thread, `main_ends then` on another thread, when
 * the main thread has ended. Ends with 7 if the process ended too early.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int is_over;

static void arm(void) {
    timer_t timer;
    struct sigevent event;
    struct itimerspec hours = {{3600, 0}, {3600, 0}};
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    if (timer_create(CLOCK_REALTIME, &event, &timer) != 0 || timer_settime(timer, 0, &hours, NULL) != 0) _exit(1);
}

static void *goes_on(void *is_first) {
    usleep(100000);
    if (is_first == NULL) arm();
    usleep(200000);
    is_over = 1;
    return NULL;
}

static void looks(void) {
    if (!is_over) _exit(7);
}

int main(int argc, char **argv) {
    pthread_t thread;
    int is_first = argc > 1 && strcmp(argv[1], "first") == 0;
    atexit(looks);
    if (is_first) arm();
    if (pthread_create(&thread, NULL, goes_on, is_first ? argv : NULL) != 0) _exit(1);
    pthread_exit(NULL);
}
