// Boost.Asio: a steady_timer for each slot. Cancelling posts the handler, which is called by the next poll: that is paid
// here each 64 operations, as by a program whose loop goes round.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>

extern "C" {
#include "peer.h"
PEER(peer_asio)
}

namespace {
using clock_type = boost::asio::steady_timer::clock_type;

struct queue {
    explicit queue(int threads) : context(threads) {}

    boost::asio::io_context context;
    std::deque<boost::asio::steady_timer> timers;
    std::deque<bool> armed;
    uint64_t fired = 0;
    unsigned posted = 0;
};

// The standard library's steady clock counts from where CLOCK_MONOTONIC does.
clock_type::time_point point(uint64_t nanos) { return clock_type::time_point(std::chrono::nanoseconds(nanos)); }

void poll_each(queue *all) {
    if (++all->posted % 64 == 0) all->context.poll();
}

void wait(queue *all, size_t slot) {
    all->armed[slot] = true;
    all->timers[slot].async_wait([all, slot](const boost::system::error_code &error) {
        if (error) return;
        all->armed[slot] = false;
        all->fired++;
    });
}
void *made(size_t slots, int threads) {
    queue *all = new queue(threads);
    for (size_t slot = 0; slot < slots; slot++) all->timers.emplace_back(all->context);
    all->armed.resize(slots);
    return all;
}
}  // namespace

void *peer_asio_new(size_t slots) { return made(slots, 1); }

void peer_asio_free(void *pointer) {
    queue *all = static_cast<queue *>(pointer);
    all->timers.clear();
    all->context.poll();
    delete all;
}

uint64_t peer_asio_now(void *) { return peer_clock(); }

int peer_asio_arm(void *pointer, size_t slot, uint64_t deadline) {
    queue *all = static_cast<queue *>(pointer);
    all->timers[slot].expires_at(point(deadline));
    wait(all, slot);
    return 1;
}

int peer_asio_cancel(void *pointer, size_t slot) {
    queue *all = static_cast<queue *>(pointer);
    bool was_armed = all->armed[slot];
    all->timers[slot].cancel();
    all->armed[slot] = false;
    poll_each(all);
    return was_armed;
}

void peer_asio_push(void *pointer, size_t slot, uint64_t deadline) {
    queue *all = static_cast<queue *>(pointer);
    all->timers[slot].expires_at(point(deadline));
    wait(all, slot);
    poll_each(all);
}

int peer_asio_is_armed(void *pointer, size_t slot) { return static_cast<queue *>(pointer)->armed[slot]; }

uint64_t peer_asio_fire(void *pointer) {
    queue *all = static_cast<queue *>(pointer);
    all->context.poll();
    return all->fired;
}
