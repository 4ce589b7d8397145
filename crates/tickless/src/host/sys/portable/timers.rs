//! The device of an event loop: a timer of the system, for which a thread can wait together with other events.

use std::io;
use std::sync::OnceLock;

use super::clocks::monotonic;
pub(crate) use super::native::timers::BorrowedTimer;
use super::native::timers::{self, OwnedTimer};
use crate::host::sys::Until;

/// A timer that is made on its first use.
#[derive(Debug)]
pub(crate) struct TimerSlot(OnceLock<OwnedTimer>);

impl TimerSlot {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the timer, if it was ever needed.
    pub(crate) fn existing(&self) -> Option<BorrowedTimer<'_>> {
        self.0.get().map(timers::borrow)
    }

    /// Does nothing, because forks are not noticed. A child must not use timers.
    #[expect(clippy::unused_self, reason = "the one of Linux separates its own")]
    pub(crate) fn separate(&self, _make: fn() -> io::Result<OwnedTimer>) {}
}

/// Returns the timer of `slot`; makes it if there is none. Called by the thread to which it belongs.
pub(crate) fn of(slot: &TimerSlot) -> io::Result<BorrowedTimer<'_>> {
    if let Some(timer) = slot.existing() {
        return Ok(timer);
    }
    let made = make()?;
    Ok(timers::borrow(slot.0.get_or_init(|| made)))
}

/// Makes a timer that is not set.
pub(crate) fn make() -> io::Result<OwnedTimer> {
    timers::make()
}

/// Sets a timer to ring at a time, in place of its previous time. The timer MAY ring a little early: the turn that
/// follows finds nothing due, and sets the timer again.
pub(crate) fn set(timer: BorrowedTimer<'_>, until: Until) {
    timers::set(timer, left(until, monotonic));
}

/// Silences a timer that rang, before it is set again; `false` if it did not ring.
pub(crate) fn drain(timer: BorrowedTimer<'_>) -> bool {
    timers::drain(timer)
}

/// Returns the nanoseconds from `now` to a time; `None` for no time.
fn left(until: Until, now: impl FnOnce() -> i64) -> Option<u64> {
    let left = match until {
        Until::Never => return None,
        Until::At(nanos) => nanos.saturating_sub(now()),
        Until::In(nanos) => nanos,
    };
    Some(left.max(1).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_or_more_nanoseconds_ahead_or_none() {
        assert_eq!(left(Until::Never, || 7), None);
        assert_eq!(left(Until::At(10), || 7), Some(3));
        assert_eq!(left(Until::At(7), || 10), Some(1));
        assert_eq!(left(Until::At(i64::MAX), || -1), Some(i64::MAX as u64));
        assert_eq!(left(Until::In(5), || 10), Some(5));
    }
}
