/*
 * Many POSIX timers: `many COUNT` makes and arms so many, says how many timers
 * the kernel has of this process, and waits until each has fired. Ends with 0
 * if the kernel had none of them, 2 if it did, 1 if something failed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t fired, twice;
static volatile char *has_fired;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    if (has_fired[info->si_value.sival_int]++) twice++;
    fired++;
}

static int timers_of_the_kernel(void) {
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/timers", "r");
    if (file == NULL) return -1;
    while (fgets(line, sizeof line, file) != NULL) count += strncmp(line, "ID:", 3) == 0;
    fclose(file);
    return count;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 10000, of_kernel, i;
    timer_t *timers = calloc((size_t)count, sizeof *timers);
    struct sigaction action;
    struct itimerspec value, off;
    memset(&action, 0, sizeof action);
    memset(&value, 0, sizeof value);
    memset(&off, 0, sizeof off);
    has_fired = calloc((size_t)count, 1);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGRTMIN, &action, NULL);
    for (i = 0; i < count; i++) {
        struct sigevent event;
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGRTMIN;
        event.sigev_value.sival_int = i;
        if (timer_create(CLOCK_MONOTONIC, &event, &timers[i]) != 0) {
            printf("timer %d: %s\n", i, strerror(errno));
            return 1;
        }
        value.it_value.tv_sec = 3600 + i % 97;
        if (timer_settime(timers[i], 0, &value, NULL) != 0) return 1;
    }
    of_kernel = timers_of_the_kernel();
    /* Pushed out, taken back, and armed for soon. */
    for (i = 0; i < count; i++) {
        value.it_value.tv_sec = 7200;
        timer_settime(timers[i], 0, &value, NULL);
        timer_settime(timers[i], 0, &off, NULL);
    }
    value.it_value.tv_sec = 0;
    for (i = 0; i < count; i++) {
        value.it_value.tv_nsec = 1000000 + i % 1000 * 100000;
        timer_settime(timers[i], 0, &value, NULL);
    }
    for (i = 0; i < 60000 && fired < count; i++) usleep(1000);
    for (i = 0; i < count; i++) timer_delete(timers[i]);
    printf("%d timers, %d of the kernel, %d fired, %d twice\n", count, of_kernel, (int)fired, (int)twice);
    if (fired != count || twice != 0) return 1;
    return of_kernel > 0 ? 2 : 0;
}
