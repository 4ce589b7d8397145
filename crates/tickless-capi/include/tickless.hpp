/*
 * tickless.hpp: tickless.h for C++17, with destructors and std::chrono.
 *
 * Everything belongs to the thread that made it, as in tickless.h. Errors are
 * std::system_error. A callback that throws ends the process.
 */
#ifndef TICKLESS_HPP
#define TICKLESS_HPP

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "tickless.h"

namespace tickless {

/* The clock of std::chrono that exact and coarse timers are on unless told otherwise: CLOCK_MONOTONIC. */
using clock = std::chrono::steady_clock;

namespace detail {

inline int checked(int result) {
    if (result < 0) throw std::system_error(-result, std::generic_category());
    return result;
}

/* A clock of tickless.h, for std::chrono. */
template <std::uint32_t Number>
struct numbered_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<numbered_clock>;
    static constexpr bool is_steady = false;
    static constexpr std::uint32_t number = Number;

    static time_point now() {
        std::uint64_t now = 0;
        checked(tickless_clock_now(Number, &now));
        return time_point(duration(static_cast<std::int64_t>(now)));
    }
};

/* The number that a clock has in tickless.h. */
template <class Clock>
struct number_of : std::integral_constant<std::uint32_t, Clock::number> {};
template <>
struct number_of<std::chrono::steady_clock> : std::integral_constant<std::uint32_t, TICKLESS_CLOCK_MONOTONIC> {};
template <>
struct number_of<std::chrono::system_clock> : std::integral_constant<std::uint32_t, TICKLESS_CLOCK_REALTIME> {};

/* Rounds up, for a timer fires never early. What is negative is an error of tickless.h. */
template <class Duration>
std::uint64_t nanoseconds(Duration duration) {
    return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::nanoseconds>(duration).count());
}

/* What loops and workers say of their first timer. */
inline std::optional<clock::time_point> first(int result, const std::uint64_t &at) {
    if (checked(result) == 0) return std::nullopt;
    return clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(at)));
}

}  // namespace detail

/* Time since the machine started, with suspension: CLOCK_BOOTTIME. */
using boottime_clock = detail::numbered_clock<TICKLESS_CLOCK_BOOTTIME>;
/* International atomic time: CLOCK_TAI. */
using tai_clock = detail::numbered_clock<TICKLESS_CLOCK_TAI>;

/* How an exact timer is to be: on which clock, and how much later than asked it may fire. */
struct config {
    std::uint32_t number = TICKLESS_CLOCK_MONOTONIC;
    std::chrono::nanoseconds slack{0};

    /* As config::on<std::chrono::system_clock>(2ms): also std::chrono::steady_clock and the two clocks above. */
    template <class Clock>
    static config on(std::chrono::nanoseconds slack = std::chrono::nanoseconds(0)) {
        return config{detail::number_of<Clock>::value, slack};
    }
};

/* The timers of this thread, for its event loop. Outlives them. */
class loop {
public:
    loop() { detail::checked(tickless_loop_new(&loop_)); }
    loop(const loop &) = delete;
    loop &operator=(const loop &) = delete;
    /* While timers are pending the loop stays in memory: see tickless_loop_free. */
    ~loop() { tickless_loop_free(loop_); }

    int fd() const { return detail::checked(tickless_loop_fd(loop_)); }
    /* Calls what is due; says how many. */
    int turn() { return detail::checked(tickless_loop_turn(loop_)); }
    /* When the first timer fires. */
    std::optional<clock::time_point> next() const {
        std::uint64_t at = 0;
        int result = tickless_loop_next(loop_, &at);
        return detail::first(result, at);
    }

private:
    tickless_loop *loop_ = nullptr;
};

/* The timers of this thread, which waits for nothing else. Outlives them. */
class worker {
public:
    worker() { detail::checked(tickless_worker_new(&worker_)); }
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;
    /* While timers are pending the worker stays in memory: see tickless_worker_free. */
    ~worker() { tickless_worker_free(worker_); }

    /* Sleeps until a timer is due or unpark is called, or for no time at all; calls what is due, and says how many. */
    int park() { return detail::checked(tickless_worker_park(worker_)); }
    /* Ends the park, or lets the next one return at once. From any thread. */
    void unpark() { detail::checked(tickless_worker_unpark(worker_)); }
    /* Calls what is due; says how many. */
    int turn() { return detail::checked(tickless_worker_turn(worker_)); }
    /* When the first timer fires. */
    std::optional<clock::time_point> next() const {
        std::uint64_t at = 0;
        int result = tickless_worker_next(worker_, &at);
        return detail::first(result, at);
    }

private:
    tickless_worker *worker_ = nullptr;
};

namespace detail {

/* The functions of tickless.h for timers of either kind. */
struct exact {
    using structure = tickless_timer;
    static constexpr auto init = tickless_timer_init;
    static constexpr auto init_config = tickless_timer_init_config;
    static constexpr auto start = tickless_timer_start;
    static constexpr auto start_at = tickless_timer_start_at;
    static constexpr auto restart = tickless_timer_restart;
    static constexpr auto forward = tickless_timer_forward;
    static constexpr auto cancel = tickless_timer_cancel;
    static constexpr auto try_cancel = tickless_timer_try_cancel;
    static constexpr auto cancel_sync = tickless_timer_cancel_sync;
    static constexpr auto pending = tickless_timer_pending;
    static constexpr auto expires = tickless_timer_expires;
    static constexpr auto destroy = tickless_timer_destroy;
};

struct coarse {
    using structure = tickless_timeout;
    static constexpr auto init = tickless_timeout_init;
    static constexpr auto start = tickless_timeout_start;
    static constexpr auto start_at = tickless_timeout_start_at;
    static constexpr auto restart = tickless_timeout_restart;
    static constexpr auto forward = tickless_timeout_forward;
    static constexpr auto cancel = tickless_timeout_cancel;
    static constexpr auto try_cancel = tickless_timeout_try_cancel;
    static constexpr auto cancel_sync = tickless_timeout_cancel_sync;
    static constexpr auto pending = tickless_timeout_pending;
    static constexpr auto expires = tickless_timeout_expires;
    static constexpr auto destroy = tickless_timeout_destroy;
};

/* A timer of either kind. */
template <class Functions>
class basic_timer {
public:
    explicit basic_timer(std::function<void()> callback) : callback_(std::move(callback)) {
        checked(Functions::init(&structure_, fired, this));
    }
    /* On another clock than tickless::clock, or with slack: exact timers alone. */
    basic_timer(std::function<void()> callback, const config &how)
        : callback_(std::move(callback)), number_(how.number) {
        tickless_timer_config made{};
        made.size = sizeof made;
        made.callback = fired;
        made.argument = this;
        made.slack_ns = nanoseconds(how.slack);
        made.clock = how.number;
        checked(Functions::init_config(&structure_, &made));
    }
    /* It lies where it was made. */
    basic_timer(const basic_timer &) = delete;
    basic_timer &operator=(const basic_timer &) = delete;
    /* Cancels it. Its own callback may destroy it. */
    ~basic_timer() {
        Functions::destroy(&structure_);
        if (is_gone_ != nullptr) *is_gone_ = true;
    }

    /* True if it was pending, and has another time now. */
    template <class Rep, class Period>
    bool start(std::chrono::duration<Rep, Period> delay) {
        return checked(Functions::start(&structure_, nanoseconds(delay))) == 1;
    }
    /* The time is one of the timer's clock. */
    template <class Clock, class Duration>
    bool start_at(std::chrono::time_point<Clock, Duration> time) {
        demand<Clock>();
        return checked(Functions::start_at(&structure_, nanoseconds(time.time_since_epoch()))) == 1;
    }
    /* The delay of the last start, from now. */
    bool restart() { return checked(Functions::restart(&structure_)) == 1; }
    /* Starts it for the next whole interval ahead; says how many were missed. */
    template <class Rep, class Period>
    std::uint64_t forward(std::chrono::duration<Rep, Period> interval) {
        std::uint64_t missed = 0;
        checked(Functions::forward(&structure_, nanoseconds(interval), &missed));
        return missed;
    }
    /* True if it was pending. */
    bool cancel() { return checked(Functions::cancel(&structure_)) == 1; }
    /* As cancel; nothing inside of the timer's own callback. */
    std::optional<bool> try_cancel() {
        int result = Functions::try_cancel(&structure_);
        if (result == -EBUSY) return std::nullopt;
        return checked(result) == 1;
    }
    /* As cancel; an error inside of the timer's own callback. */
    bool cancel_sync() { return checked(Functions::cancel_sync(&structure_)) == 1; }
    bool pending() { return checked(Functions::pending(&structure_)) == 1; }
    /* When it fires, or was to fire last, by the timer's clock. */
    template <class Clock = clock>
    std::chrono::time_point<Clock, std::chrono::nanoseconds> expires() {
        demand<Clock>();
        std::uint64_t at = 0;
        checked(Functions::expires(&structure_, &at));
        return std::chrono::time_point<Clock, std::chrono::nanoseconds>(
            std::chrono::nanoseconds(static_cast<std::int64_t>(at)));
    }

private:
    using structure = typename Functions::structure;

    /* Times of another clock mean something else. */
    template <class Clock>
    void demand() const {
        if (number_of<Clock>::value != number_) checked(-EINVAL);
    }

    static void fired(structure *, void *argument) noexcept {
        auto *self = static_cast<basic_timer *>(argument);
        /* What is called may destroy the timer, but not itself. */
        auto callback = std::move(self->callback_);
        bool is_gone = false;
        self->is_gone_ = &is_gone;
        callback();
        if (is_gone) return;
        self->is_gone_ = nullptr;
        self->callback_ = std::move(callback);
    }

    structure structure_;
    std::function<void()> callback_;
    std::uint32_t number_ = TICKLESS_CLOCK_MONOTONIC;
    bool *is_gone_ = nullptr;
};

}  // namespace detail

/* An exact timer. */
using timer = detail::basic_timer<detail::exact>;

/* A coarse timer: up to an eighth of its delay late, and cheap in any number. */
using timeout = detail::basic_timer<detail::coarse>;

}  // namespace tickless

#endif
