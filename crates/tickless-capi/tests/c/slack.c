/*
 * Sleeps are exact, and the timer slack that the program chose is the same afterwards. With SYSTEM the program calls
 * the functions of the C library, before which the library is loaded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "is.h"
#ifdef SYSTEM
#define nap(request) nanosleep(request, NULL)
#define nap_until(time) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, time, NULL)
#else
#include "tickless-posix.h"
#define nap(request) tickless_clock_nanosleep(CLOCK_MONOTONIC, 0, request, NULL)
#define nap_until(time) tickless_clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, time, NULL)
#endif

#define CHOSEN 5000000
#define EXACT 1

static int slack(void) { return prctl(PR_GET_TIMERSLACK); }

static volatile sig_atomic_t seen;

static void looks(int number) {
    (void)number;
    seen = slack();
}

static void interrupt_in(int micros) {
    struct itimerval soon;
    memset(&soon, 0, sizeof soon);
    soon.it_value.tv_usec = micros;
    seen = 0;
    IS(setitimer(ITIMER_REAL, &soon, NULL), 0);
}

static void a_long_sleep_is_exact(void) {
    struct timespec request = {3600, 0}, time;
    interrupt_in(20000);
    IS(nap(&request) != 0, 1);
    IS(seen, EXACT);
    IS(slack(), CHOSEN);
    interrupt_in(20000);
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += 3600;
    IS(nap_until(&time) != 0, 1);
    IS(seen, EXACT);
    IS(slack(), CHOSEN);
}

#ifdef SYSTEM
/* It would not leave the CPU. */
static void a_sleep_shorter_than_the_slack_keeps_it(void) {
    struct timespec request = {0, CHOSEN - 1};
    int round;
    for (round = 0; round < 20; round++) {
        interrupt_in(100);
        nap(&request);
        while (seen == 0) continue;
        IS(seen, CHOSEN);
        interrupt_in(100);
        usleep(CHOSEN / 1000 - 1);
        while (seen == 0) continue;
        IS(seen, CHOSEN);
    }
}
#endif

static void *starts(void *argument) {
    IS(slack(), CHOSEN);
    return argument;
}

static void what_starts_after_a_sleep_has_the_slack_of_the_program(void) {
    struct timespec long_one = {0, CHOSEN + 1000000}, short_one = {0, 1000};
    pthread_t thread;
    int status = -1;
    pid_t child;
    IS(nap(&long_one), 0);
    IS(nap(&short_one), 0);
#ifdef SYSTEM
    IS(usleep(1), 0);
    IS(usleep(CHOSEN / 1000 + 1), 0);
#endif
    IS(slack(), CHOSEN);
    IS(pthread_create(&thread, NULL, starts, NULL), 0);
    IS(pthread_join(thread, NULL), 0);
    child = fork();
    if (child == 0) _exit(slack() != CHOSEN);
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
}

int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = looks;
    IS(sigaction(SIGALRM, &action, NULL), 0);
    IS(prctl(PR_SET_TIMERSLACK, (unsigned long)CHOSEN), 0);
    a_long_sleep_is_exact();
#ifdef SYSTEM
    a_sleep_shorter_than_the_slack_keeps_it();
#endif
    what_starts_after_a_sleep_has_the_slack_of_the_program();
    if (faults == 0) puts("all held");
    return faults != 0;
}
