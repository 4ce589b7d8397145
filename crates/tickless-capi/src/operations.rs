//! What is done to a timer of the library, whatever its clock and its kind are.

use std::pin::Pin;
use std::time::Duration;

use tickless::hrtimer::{ClockId, Expired, HrTimer, Instant, Restart, Span, Start};
use tickless::wheel::{Timeout, WheelTimer};

/// One timer, its type forgotten: the type of a closure has no name that a structure for C could have.
pub(crate) trait Operations {
    /// Starts it, or starts it anew, for a time in nanoseconds that is none too late for the clock, or a little later.
    /// No timer of a C program is ever shut down, and whether it was pending its [`Place`](crate::place::Place) knows.
    fn start(self: Pin<&Self>, deadline: u64, slack: u64);

    /// Takes it back.
    fn cancel(self: Pin<&Self>);
}

impl<F, C> Operations for HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    fn start(self: Pin<&Self>, deadline: u64, slack: u64) {
        let nanos = i64::try_from(deadline).unwrap_or(i64::MAX);
        let start = Start::at(Instant::from_nanos(nanos)).slack(Span::from_nanos(slack));
        // It stays on its thread, whatever becomes of those of isolated workers.
        let _outcome = HrTimer::start(self, start.pinned());
    }

    fn cancel(self: Pin<&Self>) {
        let _was_queued = HrTimer::cancel(self);
    }
}

impl<F> Operations for WheelTimer<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    fn start(self: Pin<&Self>, deadline: u64, _slack: u64) {
        let now = crate::clock::shown(tickless::hrtimer::Clock::Monotonic);
        let left = Duration::from_nanos(deadline.saturating_sub(now));
        let _outcome = WheelTimer::start(self, left);
    }

    fn cancel(self: Pin<&Self>) {
        let _was_queued = WheelTimer::cancel(self);
    }
}
