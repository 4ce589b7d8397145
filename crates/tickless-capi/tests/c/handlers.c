/*
 * Calls of signal handlers: what a handler does between two steps of a call that it interrupts, and what a call asks
 * of malloc, which a handler may have interrupted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "turns.h"

/* The calls of both kinds of timers, by number. */
static struct tickless_timer *timer;
static struct tickless_timeout *timeout;

static int call(int number) {
    uint64_t word;
    switch (number) {
    case 0: return tickless_timer_start(timer, 1000 * MS);
    case 1: return tickless_timer_start_at(timer, 1);
    case 2: return tickless_timer_restart(timer);
    case 3: return tickless_timer_forward(timer, 1000 * MS, &word);
    case 4: return tickless_timer_cancel(timer);
    case 5: return tickless_timer_try_cancel(timer);
    case 6: return tickless_timer_cancel_sync(timer);
    case 7: return tickless_timer_pending(timer);
    case 8: return tickless_timer_expires(timer, &word);
    case 9: return tickless_timer_destroy(timer);
    case 10: return tickless_timeout_start(timeout, 1000 * MS);
    case 11: return tickless_timeout_start_at(timeout, 1);
    case 12: return tickless_timeout_restart(timeout);
    case 13: return tickless_timeout_forward(timeout, 1000 * MS, &word);
    case 14: return tickless_timeout_cancel(timeout);
    case 15: return tickless_timeout_try_cancel(timeout);
    case 16: return tickless_timeout_cancel_sync(timeout);
    case 17: return tickless_timeout_pending(timeout);
    case 18: return tickless_timeout_expires(timeout, &word);
    default: return tickless_timeout_destroy(timeout);
    }
}

#define EXACT_CALLS 10
#define CALLS 20

/*
 * A timer whose first word ends a page. The second page is protected, so that a call is interrupted behind its look at
 * that word, and the handler of the fault destroys the timer.
 */
static char *pages;
static size_t page;
static int is_exact;
static volatile int destroyed;

static void destroys(int number) {
    int kept = errno;
    (void)number;
    if (mprotect(pages + page, page, PROT_READ | PROT_WRITE) != 0) _exit(9);
    destroyed = is_exact ? tickless_timer_destroy(timer) : tickless_timeout_destroy(timeout);
    errno = kept;
}

static void a_timer_is_not_destroyed_behind_the_look_of_a_call(void) {
    struct sigaction action, former;
    int number, is_pending;
    uint64_t at;
    memset(&action, 0, sizeof action);
    action.sa_handler = destroys;
    page = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    IS(pages != MAP_FAILED, 1);
    timer = (struct tickless_timer *)(void *)(pages + page - sizeof(uint64_t));
    timeout = (struct tickless_timeout *)(void *)timer;
    IS(sigaction(SIGSEGV, &action, &former), 0);
    for (number = 0; number < CALLS; number++) {
        for (is_pending = 0; is_pending < 2; is_pending++) {
            is_exact = number < EXACT_CALLS;
            IS(is_exact ? tickless_timer_init(timer, count, NULL) : tickless_timeout_init(timeout, count_timeout, NULL), 0);
            IS(call(is_exact ? 0 : EXACT_CALLS), 0);
            if (!is_pending) IS(call(is_exact ? 4 : EXACT_CALLS + 4), 1);
            destroyed = 1;
            IS(mprotect(pages + page, page, PROT_NONE), 0);
            /* All calls succeed but the second start of `forward`. */
            IS(call(number) >= 0 || number % EXACT_CALLS == 3, 1);
            IS(destroyed, -EAGAIN);
            IS(call(is_exact ? EXACT_CALLS - 1 : CALLS - 1), number % EXACT_CALLS == 9 ? -EINVAL : 0);
            IS(tickless_loop_next(the_loop, &at), 0);
        }
    }
    IS(sigaction(SIGSEGV, &former, NULL), 0);
    IS(munmap(pages, 2 * page), 0);
}

/* Sanitizers have their own allocator. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

/* What a thread asks of the allocator while it is being watched. */
static __thread volatile int is_watching;
static volatile int asked;

static void ask(void) { asked += is_watching; }

void *malloc(size_t size) { ask(); return __libc_malloc(size); }
void *calloc(size_t number, size_t size) { ask(); return __libc_calloc(number, size); }
void *realloc(void *memory, size_t size) { ask(); return __libc_realloc(memory, size); }
void *aligned_alloc(size_t alignment, size_t size) { ask(); return __libc_memalign(alignment, size); }
void free(void *memory) { if (memory != NULL) ask(); __libc_free(memory); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
    ask();
    *memory = __libc_memalign(alignment, size);
    return *memory == NULL ? ENOMEM : 0;
}

#define MANY 3000

static struct tickless_timer timers[MANY];
static struct tickless_timeout timeouts[MANY];

/* A debug build of the library notes who called `init`, in memory of malloc, until `destroy`. */
#ifdef RELEASE
#define IS_RELEASE 1
#else
#define IS_RELEASE 0
#endif

static void no_call_of_a_timer_allocates(void) {
    static const uint32_t clocks[] = {TICKLESS_CLOCK_REALTIME, TICKLESS_CLOCK_MONOTONIC,
                                      TICKLESS_CLOCK_BOOTTIME, TICKLESS_CLOCK_TAI};
    static const uint64_t delays[] = {0, MS, 1000 * MS, 86400 * 1000 * MS, 14600 * (86400 * 1000 * MS)};
    struct tickless_timer_config config;
    uint64_t shown = 0;
    int wrong = 0, number, i;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.callback = count;
    /* The first timer on a clock that can be set starts a thread. */
    config.clock = TICKLESS_CLOCK_TAI;
    wrong += tickless_timer_init_config(&timers[0], &config) != 0;
    wrong += tickless_timer_destroy(&timers[0]) != 0;
    is_watching = IS_RELEASE;
    for (i = 0; i < MANY; i++) {
        config.clock = clocks[i % 4];
        config.slack_ns = i / 4 % 2 == 0 ? 0 : MS;
        wrong += tickless_timer_init_config(&timers[i], &config) != 0;
        wrong += tickless_timeout_init(&timeouts[i], count_timeout, NULL) != 0;
        if (IS_RELEASE) wrong += tickless_timer_init(&timers[i], count, NULL) != -EBUSY;
    }
    is_watching = 1;
    for (i = 0; i < MANY; i++) {
        tickless_clock_now(clocks[i % 4], &shown);
        wrong += tickless_timer_start_at(&timers[i], shown + delays[i % 5]) != 0;
        wrong += tickless_timeout_start(&timeouts[i], delays[i % 5]) != 0;
    }
    for (i = 0; i < MANY; i++) {
        timer = &timers[i];
        timeout = &timeouts[i];
        for (number = 0; number < CALLS; number++) {
            is_watching = IS_RELEASE || number % EXACT_CALLS != 9;
            call(number);
        }
    }
    is_watching = 0;
    IS(asked, 0);
    IS(wrong, 0);
    IS(tickless_loop_next(the_loop, &shown), 0);
}

static void the_first_reading_of_a_clock_allocates_nothing(void) {
    is_watching = 1;
    IS(now() > 0, 1);
    is_watching = 0;
#ifdef FOLLOWS_TOKIO
    /* tokio, which is asked first, allocates for its thread-local value. */
    asked = 0;
#endif
    IS(asked, 0);
}

/* Without memory a call fails, and what stands stays as it was. */
static void init_without_memory_is_refused(void) {
    struct rlimit before, none;
    int ready = 0, refused = 0, wrong = 0, i;
    void **taken = NULL, **more;
    IS(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 0;
    IS(setrlimit(RLIMIT_AS, &none), 0);
    /* What malloc has still. */
    while ((more = malloc(64)) != NULL) {
        *more = taken;
        taken = more;
    }
    for (i = 0; i < MANY; i++) {
        int answer = tickless_timer_init(&timers[i], count, NULL);
        if (answer == 0) ready++;
        else if (answer == -ENOMEM) refused++;
        else wrong = answer;
    }
    IS(setrlimit(RLIMIT_AS, &before), 0);
    while ((more = taken) != NULL) {
        taken = *more;
        free(more);
    }
    IS(wrong, 0);
    IS(refused > 0, 1);
    for (i = 0; i < MANY; i++) ready -= tickless_timer_destroy(&timers[i]) == 0;
    IS(ready, 0);
    for (i = 0; i < MANY; i++) wrong += tickless_timer_init(&timers[i], count, NULL) != 0;
    for (i = 0; i < MANY; i++) wrong += tickless_timer_destroy(&timers[i]) != 0;
    IS(wrong, 0);
}

static void calls_ask_nothing_of_the_allocator(void) {
    if (IS_RELEASE) init_without_memory_is_refused();
    no_call_of_a_timer_allocates();
}

#else

static void the_first_reading_of_a_clock_allocates_nothing(void) {}
static void calls_ask_nothing_of_the_allocator(void) {}

#endif

static void all_is_as_if_no_handler_had_interrupted(void) {
    struct tickless_timer last;
    int fired = 0;
    IS(tickless_timer_init(&last, count, &fired), 0);
    IS(tickless_timer_start(&last, MS), 0);
    until(&fired, 1);
    IS(tickless_timer_destroy(&last), 0);
}

int main(void) {
    the_first_reading_of_a_clock_allocates_nothing();
    IS(tickless_loop_new(&the_loop), 0);
    a_timer_is_not_destroyed_behind_the_look_of_a_call();
    calls_ask_nothing_of_the_allocator();
    all_is_as_if_no_handler_had_interrupted();
    IS(tickless_loop_free(the_loop), 0);
    if (faults == 0) puts("all held");
    return faults != 0;
}
