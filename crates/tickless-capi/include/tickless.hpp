/*
 * tickless.hpp: tickless.h for C++17, with destructors and std::chrono.
 *
 * Everything belongs to the thread that made it, as in tickless.h. Errors are
 * std::system_error. A callback that throws ends the process.
 */
#ifndef TICKLESS_HPP
#define TICKLESS_HPP

#include <chrono>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "tickless.h"

namespace tickless {

/* The clock of std::chrono that exact and coarse timers are on: CLOCK_MONOTONIC. */
using clock = std::chrono::steady_clock;

namespace detail {

inline int checked(int result) {
    if (result < 0) throw std::system_error(-result, std::generic_category());
    return result;
}

/* Rounds up, for a timer fires never early. What is negative is an error of tickless.h. */
template <class Duration>
std::uint64_t nanoseconds(Duration duration) {
    return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::nanoseconds>(duration).count());
}

}  // namespace detail

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
        if (detail::checked(tickless_loop_next(loop_, &at)) == 0) return std::nullopt;
        return clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(at)));
    }

private:
    tickless_loop *loop_ = nullptr;
};

namespace detail {

/* A timer of either kind, by the functions of tickless.h for it. */
template <class Structure, int (*Init)(Structure *, void (*)(Structure *, void *), void *),
          int (*Start)(Structure *, std::uint64_t), int (*StartAt)(Structure *, std::uint64_t),
          int (*Forward)(Structure *, std::uint64_t, std::uint64_t *), int (*Cancel)(Structure *),
          int (*Pending)(Structure *), int (*Destroy)(Structure *)>
class basic_timer {
public:
    explicit basic_timer(std::function<void()> callback) : callback_(std::move(callback)) {
        checked(Init(&structure_, fired, this));
    }
    /* It lies where it was made. */
    basic_timer(const basic_timer &) = delete;
    basic_timer &operator=(const basic_timer &) = delete;
    /* Cancels it. Its own callback may destroy it. */
    ~basic_timer() {
        Destroy(&structure_);
        if (is_gone_ != nullptr) *is_gone_ = true;
    }

    /* True if it was pending, and has another time now. */
    template <class Rep, class Period>
    bool start(std::chrono::duration<Rep, Period> delay) {
        return checked(Start(&structure_, nanoseconds(delay))) == 1;
    }
    template <class Duration>
    bool start_at(std::chrono::time_point<clock, Duration> time) {
        return checked(StartAt(&structure_, nanoseconds(time.time_since_epoch()))) == 1;
    }
    /* Starts it for the next whole interval ahead; says how many were missed. */
    template <class Rep, class Period>
    std::uint64_t forward(std::chrono::duration<Rep, Period> interval) {
        std::uint64_t missed = 0;
        checked(Forward(&structure_, nanoseconds(interval), &missed));
        return missed;
    }
    /* True if it was pending. */
    bool cancel() { return checked(Cancel(&structure_)) == 1; }
    bool pending() { return checked(Pending(&structure_)) == 1; }

private:
    static void fired(Structure *, void *argument) noexcept {
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

    Structure structure_;
    std::function<void()> callback_;
    bool *is_gone_ = nullptr;
};

}  // namespace detail

/* An exact timer on the monotonic clock. */
using timer = detail::basic_timer<tickless_timer, tickless_timer_init, tickless_timer_start, tickless_timer_start_at,
                                  tickless_timer_forward, tickless_timer_cancel, tickless_timer_pending,
                                  tickless_timer_destroy>;

/* A coarse timer: up to an eighth of its delay late, and cheap in any number. */
using timeout =
    detail::basic_timer<tickless_timeout, tickless_timeout_init, tickless_timeout_start, tickless_timeout_start_at,
                        tickless_timeout_forward, tickless_timeout_cancel, tickless_timeout_pending,
                        tickless_timeout_destroy>;

}  // namespace tickless

#endif
