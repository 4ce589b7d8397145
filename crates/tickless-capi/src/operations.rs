//! The operations on a timer, independent of its clock and kind.

use std::pin::Pin;

use tickless::hrtimer::{ClockId, Expired, HrTimer, Instant, Monotonic, Restart, Span, Start};
use tickless::wheel::{Timeout, WheelTimer};

/// The operations on a timer of an erased type. The type is erased because the type of a closure has no name that a
/// structure for C could use.
pub(crate) trait Operations {
    /// Starts or restarts the timer for a time in nanoseconds, which must not be too late for the clock; with slack, it
    /// may fire a little later. Returns nothing: no timer of a C program is ever shut down, and its
    /// [`ThreadPlace`](crate::place::ThreadPlace) knows whether it was pending.
    fn start(self: Pin<&Self>, deadline: u64, slack: u64);

    /// Cancels the timer.
    fn cancel(self: Pin<&Self>);
}

impl<F, C> Operations for HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    fn start(self: Pin<&Self>, deadline: u64, slack: u64) {
        let nanos = i64::try_from(deadline).unwrap_or(i64::MAX);
        let instant = Instant::from_nanos(nanos);
        // Pinned: it stays on its thread, whatever becomes of those of isolated workers.
        let _outcome = if slack == 0 {
            HrTimer::start_pinned(self, instant)
        } else {
            let start = Start::at(instant).slack(Span::from_nanos(slack));
            HrTimer::start(self, start.pinned())
        };
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
        let nanos = i64::try_from(deadline).unwrap_or(i64::MAX);
        // An instant and no delay: that would read the clock again.
        let at = tickless::time::Instant::from(Instant::<Monotonic>::from_nanos(nanos));
        let _outcome = WheelTimer::start(self, at);
    }

    fn cancel(self: Pin<&Self>) {
        let _was_queued = WheelTimer::cancel(self);
    }
}
