//! The deadline of a worker that polls, converted to cycles so that each poll is one comparison.
//!
//! A worker that [spins](crate::Parking::Spin) checks again and again its deadline and the word into which a waker
//! writes. It converts its deadline to cycles once ([`Aim`]), so that a check consists of the loads of the due time,
//! one reading of the counter, and one comparison.

use std::cell::Cell;

use tickless_core::time::Instant;

/// A deadline in cycles, which is converted when the deadline changes and when the clock has to be read again.
///
/// An `Aim` is for one wait of one thread. The counter value is valid for the line that the clock followed at the
/// conversion, and is not after the end of that line.
#[derive(Debug)]
pub(crate) struct Aim {
    due: Cell<Instant>,
    until: Cell<u64>,
}

impl Aim {
    /// Creates an `Aim` without a converted deadline.
    pub(crate) const fn new() -> Self {
        Self {
            due: Cell::new(Instant::FOREVER),
            until: Cell::new(0),
        }
    }

    /// Returns true if `due`, the time for which the thread waits now, is certainly in the future when the counter
    /// reads `cycles`.
    #[inline]
    pub(crate) fn is_ahead(&self, due: Instant, cycles: impl FnOnce() -> u64) -> bool {
        due == self.due.get() && cycles() < self.until.get()
    }

    /// Records that `due` is in the future until the counter reads `until`; zero if that value is not known.
    pub(crate) fn take(&self, due: Instant, until: u64) {
        self.due.set(due);
        self.until.set(until);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A deadline is converted once. While the deadline does not change and the counter is before it, a check reads
    /// only the counter.
    #[test]
    fn an_aim_holds_for_one_deadline_until_its_cycles() {
        let aim = Aim::new();
        let (due, earlier) = (Instant::from_nanos(100), Instant::from_nanos(50));
        assert!(!aim.is_ahead(Instant::FOREVER, || 0), "nothing is known");
        aim.take(due, 1_000);
        assert!(aim.is_ahead(due, || 999) && !aim.is_ahead(due, || 1_000));
        assert!(!aim.is_ahead(earlier, || unreachable!("another deadline")));
        aim.take(due, 0);
        assert!(!aim.is_ahead(due, || 0));
    }
}
