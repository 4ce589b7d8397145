/* What tickless.hpp promises, as a program that ends with 0 if all of it held. */
#include <poll.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "tickless.hpp"

using namespace std::chrono_literals;

static int faults;

#define IS(condition)                                          \
    do {                                                       \
        if (!(condition)) {                                    \
            std::printf("line %d: %s\n", __LINE__, #condition); \
            faults++;                                          \
        }                                                      \
    } while (0)

/* Turns until it holds; a minute is for what hangs. */
template <class Condition>
static void until(tickless::loop &loop, Condition condition) {
    auto hangs = tickless::clock::now() + 60s;
    pollfd watched{loop.fd(), POLLIN, 0};
    while (!condition() && tickless::clock::now() < hangs) {
        poll(&watched, 1, 100);
        loop.turn();
    }
    IS(condition());
}

/* Runs what must be refused with that error. */
template <class Call>
static bool fails(std::errc wanted, Call call) {
    try {
        call();
    } catch (const std::system_error &error) {
        return error.code() == wanted;
    }
    return false;
}

template <class Timer>
static void each_verb(tickless::loop &loop) {
    int fired = 0;
    Timer *self = nullptr;
    Timer timer([&] {
        fired++;
        /* A timer cannot wait for its own callback. */
        IS(!self->try_cancel());
        IS(fails(std::errc::resource_deadlock_would_occur, [&] { self->cancel_sync(); }));
    });
    self = &timer;
    IS(fails(std::errc::invalid_argument, [&] { timer.restart(); }));
    auto before = tickless::clock::now();
    IS(!timer.start(1h));
    IS(timer.expires() >= before + 1h);
    before = tickless::clock::now();
    IS(timer.restart());
    IS(timer.expires() >= before + 1h);
    IS(timer.try_cancel() == true);
    IS(timer.try_cancel() == false);
    IS(!timer.restart());
    IS(timer.cancel_sync());
    IS(!timer.cancel_sync());
    before = tickless::clock::now();
    IS(!timer.start(1ms));
    until(loop, [&] { return fired == 1; });
    IS(timer.expires() >= before + 1ms);
    IS(fails(std::errc::invalid_argument, [&] { timer.start_at(std::chrono::system_clock::now()); }));
    IS(fails(std::errc::invalid_argument, [&] { timer.template expires<tickless::tai_clock>(); }));
}

/* A time of the timer's clock. */
template <class Clock>
static void on_clock(tickless::loop &loop) {
    int fired = 0;
    tickless::timer timer([&] { fired++; }, tickless::config::on<Clock>(500us));
    auto at = Clock::now() + 2ms;
    IS(!timer.start_at(at));
    IS(timer.template expires<Clock>() == at);
    until(loop, [&] { return fired == 1; });
    IS(Clock::now() >= at);
}

static void configurations(tickless::loop &loop) {
    on_clock<std::chrono::steady_clock>(loop);
    on_clock<std::chrono::system_clock>(loop);
    on_clock<tickless::boottime_clock>(loop);
    on_clock<tickless::tai_clock>(loop);
    tickless::timer daily([] {}, tickless::config::on<std::chrono::system_clock>());
    /* The time of day is set: a delay is none of its times. */
    IS(fails(std::errc::invalid_argument, [&] { daily.start(1h); }));
    IS(fails(std::errc::invalid_argument, [&] { daily.expires(); }));
    IS(fails(std::errc::invalid_argument, [] { tickless::timer odd([] {}, tickless::config{5, 0ns}); }));
    IS(fails(std::errc::invalid_argument, [] { tickless::timer odd([] {}, tickless::config{1, -1ns}); }));
    /* Slack moves what is waited for, and not what was asked. */
    tickless::timer lenient([] {}, tickless::config{TICKLESS_CLOCK_MONOTONIC, 1h});
    auto at = tickless::clock::now() + 1h;
    lenient.start_at(at);
    IS(lenient.expires() == at);
    IS(loop.next() >= at);
}

static void workers() {
    tickless::worker worker;
    IS(fails(std::errc::file_exists, [] { tickless::loop loop; }));
    IS(!worker.next());
    int fired = 0;
    auto at = tickless::clock::now() + 2ms;
    tickless::timer timer([&] { fired++; });
    timer.start_at(at);
    IS(worker.next() >= at);
    while (fired == 0) worker.park();
    IS(tickless::clock::now() >= at);
    IS(worker.turn() == 0);
    /* Nothing is pending: without the other thread it would sleep for ever. */
    std::thread other([&] { worker.unpark(); });
    IS(worker.park() == 0);
    other.join();
}

int main() {
    std::thread(workers).join();
    tickless::loop loop;
    each_verb<tickless::timer>(loop);
    each_verb<tickless::timeout>(loop);
    configurations(loop);
    try {
        tickless::loop second;
        IS(false);
    } catch (const std::system_error &error) {
        IS(error.code() == std::errc::file_exists);
    }
    IS(!loop.next());
    {
        int fired = 0;
        auto at = tickless::clock::now() + 3ms;
        tickless::timer timer([&] {
            IS(tickless::clock::now() >= at);
            fired++;
        });
        IS(!timer.start_at(at));
        IS(timer.pending());
        IS(loop.next() >= at);
        until(loop, [&] { return fired == 1; });
        IS(!timer.pending());
        IS(!timer.start(1h));
        IS(timer.start(std::chrono::duration<double>(0.002)));
        at = tickless::clock::now();
        until(loop, [&] { return fired == 2; });
        IS(!timer.start(1h));
        IS(timer.cancel());
        try {
            timer.start(-1ns);
            IS(false);
        } catch (const std::system_error &error) {
            IS(error.code() == std::errc::invalid_argument);
        }
        std::thread([&] {
            try {
                timer.start(1h);
                IS(false);
            } catch (const std::system_error &error) {
                IS(error.code() == std::errc::operation_not_permitted);
            }
        }).join();
        /* Its destructor cancels it. */
        timer.start(1h);
    }
    IS(!loop.next());
    {
        int beats = 0;
        tickless::timer *self = nullptr;
        tickless::timer beat([&] {
            if (++beats < 5) self->forward(1ms);
        });
        self = &beat;
        beat.start(1ms);
        until(loop, [&] { return beats == 5; });
    }
    {
        /* A callback destroys its own timer, with what it captured. */
        auto alive = std::make_shared<int>(1);
        auto timeout = std::make_unique<std::unique_ptr<tickless::timeout>>();
        auto *place = timeout.get();
        *place = std::make_unique<tickless::timeout>([alive, place] {
            place->reset();
            IS(alive.use_count() >= 2);
        });
        (*place)->start(1ms);
        until(loop, [&] { return !*place; });
        IS(alive.use_count() == 1);
    }
    return faults != 0;
}
