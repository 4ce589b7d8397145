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

int main() {
    tickless::loop loop;
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
