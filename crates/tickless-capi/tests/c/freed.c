/* Two mistakes that a debug build of the library names: it ends this program by abort. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "tickless.h"

static void nothing(struct tickless_timer *timer, void *argument) {
    (void)timer;
    (void)argument;
}

static int initialises_twice(struct tickless_timer *timer) {
    tickless_timer_init(timer, nothing, NULL);
    return tickless_timer_init(timer, nothing, NULL);
}

/* Freed memory that others use now: the first word differs. */
static void forgets_to_destroy(void) {
    struct tickless_timer *timer = malloc(sizeof *timer);
    tickless_timer_init(timer, nothing, NULL);
    tickless_timer_start(timer, UINT64_C(3600000000000));
    memset(timer, 0x5a, sizeof *timer);
    free(timer);
}

int main(void) {
    struct tickless_loop *loop;
    struct tickless_timer timer;
    tickless_loop_new(&loop);
    if (initialises_twice(&timer) >= 0) return 1;
    tickless_timer_destroy(&timer);
    forgets_to_destroy();
    tickless_loop_turn(loop);
    return 2;
}
