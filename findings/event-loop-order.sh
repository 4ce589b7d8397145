#!/usr/bin/env bash
# libev and libevent run timers of one deadline in an order that is neither that of arming nor its reverse.
#
# Versions: Debian's libev 4.33-1 and libevent 2.1.12-stable-8+deb12u1; libuv 1.44.2-1+deb12u1 beside them.
#
# Expected before the first run: eight timers that are armed in a row for the same deadline run in the order of arming.
# Seen: libuv does that (0 to 7). libev and libevent run the first one first and the others in reverse: 0 7 6 5 4 3 2 1.
# Both keep deadlines in a heap without a sequence number. With event_base_init_common_timeout, which is a list for each
# duration, libevent runs them in the order of arming.
#
# For a user: code that moves from libuv to one of the others, or from a common timeout to an ordinary one, cannot keep
# an order that it relied on.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages or a compiler are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
packages=(libev4=1:4.33-1 libev-dev=1:4.33-1 libevent-core-2.1-7=2.1.12-stable-8+deb12u1 libevent-dev=2.1.12-stable-8+deb12u1
    libuv1=1.44.2-1+deb12u1 libuv1-dev=1.44.2-1+deb12u1)
command -v gcc > log || { echo "skipped: there is no gcc" >&2; exit 3; }
apt-get download -qq "${packages[@]}" > log 2>&1 || { echo "skipped: these packages cannot be had here" >&2; exit 3; }
for package in *.deb; do dpkg -x "$package" root; done
for package in "${packages[@]}"; do echo "version: $package"; done
cat > order.c <<'C'
#include <ev.h>
#include <event2/event.h>
#include <stdio.h>
#include <uv.h>

enum { TIMERS = 8 };

static void on_ev(struct ev_loop *loop, ev_timer *timer, int events) { printf(" %ld", (long)timer->data); }
static void on_uv(uv_timer_t *timer) { printf(" %ld", (long)timer->data); }
static void on_event(evutil_socket_t fd, short events, void *number) { printf(" %ld", (long)number); }

int main(void) {
    struct ev_loop *ev = ev_default_loop(0);
    ev_timer evs[TIMERS];
    for (long i = 0; i < TIMERS; i++) {
        ev_timer_init(&evs[i], on_ev, 0.05, 0);
        evs[i].data = (void *)i;
        ev_timer_start(ev, &evs[i]);
    }
    printf("libev:");
    ev_run(ev, 0);

    uv_loop_t *uv = uv_default_loop();
    uv_timer_t uvs[TIMERS];
    for (long i = 0; i < TIMERS; i++) {
        uv_timer_init(uv, &uvs[i]);
        uvs[i].data = (void *)i;
        uv_timer_start(&uvs[i], on_uv, 50, 0);
    }
    printf("\nlibuv:");
    uv_run(uv, UV_RUN_DEFAULT);

    struct event_base *base = event_base_new();
    struct timeval after = {0, 50000};
    const struct timeval *common = event_base_init_common_timeout(base, &after);
    struct event *events[TIMERS];
    for (long i = 0; i < TIMERS; i++) events[i] = evtimer_new(base, on_event, (void *)i);
    const struct timeval *ways[] = {&after, common};
    const char *names[] = {"libevent", "libevent, common timeout"};
    for (int way = 0; way < 2; way++) {
        /* Timers of one deadline: the base adds the duration to a time that it keeps. */
        event_base_loop(base, EVLOOP_NONBLOCK);
        event_base_update_cache_time(base);
        for (int i = 0; i < TIMERS; i++) evtimer_add(events[i], ways[way]);
        printf("\n%s:", names[way]);
        event_base_dispatch(base);
    }
    printf("\n");
    return 0;
}
C
# libev has functions of the names of libevent, too: libevent stands first.
lib=root/usr/lib/$(gcc -print-multiarch)
inc=root/usr/include
gcc -w -I "$inc" -I "$inc/$(gcc -print-multiarch)" order.c -o order "$lib"/libevent_core-2.1.so.7 \
    "$lib"/libuv.so.1 "$lib"/libev.so.4
LD_LIBRARY_PATH=$lib ./order | tee seen
cat > expected <<'TEXT'
libev: 0 7 6 5 4 3 2 1
libuv: 0 1 2 3 4 5 6 7
libevent: 0 7 6 5 4 3 2 1
libevent, common timeout: 0 1 2 3 4 5 6 7
TEXT
diff expected seen && echo "as described: 4 of 4 lines"
