//! The device of an event loop: a timer of the system, for which a thread can wait together with other things.

use std::io;
use std::sync::OnceLock;

use super::clocks::monotonic;
pub(crate) use super::native::timers::BorrowedTimer;
use super::native::timers::{self, OwnedTimer};
use crate::host::sys::Until;

/// A timer that is made when it is needed first.
#[derive(Debug)]
pub(crate) struct TimerSlot(OnceLock<OwnedTimer>);

impl TimerSlot {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The timer, if one was ever needed.
    pub(crate) fn existing(&self) -> Option<BorrowedTimer<'_>> {
        self.0.get().map(timers::borrow)
    }

    /// Does nothing: forks are not noticed, and a child must not use timers.
    #[expect(clippy::unused_self, reason = "the one of Linux separates its own")]
    pub(crate) fn separate(&self, _make: fn() -> io::Result<OwnedTimer>) {}
}

/// Returns the timer of `slot`, made if there is none. Called by the thread that it belongs to.
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

/// Has a timer ring at a time, and not at the one that it was set for before. It MAY ring early by a little: the turn
/// that follows finds nothing due, and sets it again.
pub(crate) fn set(timer: BorrowedTimer<'_>, until: Until) {
    timers::set(timer, left(until, monotonic));
}

/// Takes what a timer rang for, before it is set anew; `false` if it did not ring.
pub(crate) fn drain(timer: BorrowedTimer<'_>) -> bool {
    timers::drain(timer)
}

/// Nanoseconds from `now` to a time; `None` for none.
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
