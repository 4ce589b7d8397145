//! The deadline of a worker that polls, converted to cycles so that each poll is one comparison.
//!
//! A worker that [spins](crate::Parking::Spin) looks again and again at its deadline and at the word into which a waker
//! writes. It converts its deadline to cycles once ([`Aim`]), so that a look is the loads that say what is due, one
//! reading of the counter, and one comparison.

use std::cell::Cell;

use tickless_core::time::Instant;

/// A deadline in cycles, converted when it changes and when the clock has to be read again.
///
/// It is for one wait of one thread: the counter value holds for the line that the clock followed when it was
/// converted, which ends there or before.
#[derive(Debug)]
pub(crate) struct Aim {
    due: Cell<Instant>,
    until: Cell<u64>,
}

impl Aim {
    /// Creates the state in which nothing is known yet.
    pub(crate) const fn new() -> Self {
        Self {
            due: Cell::new(Instant::FOREVER),
            until: Cell::new(0),
        }
    }

    /// Returns true if `due`, which is what the thread waits for now, is certainly to come where the counter reads
    /// `cycles`.
    #[inline]
    pub(crate) fn is_ahead(&self, due: Instant, cycles: impl FnOnce() -> u64) -> bool {
        due == self.due.get() && cycles() < self.until.get()
    }

    /// Notes that `due` is to come before the counter reads `until`; zero where that is not known.
    pub(crate) fn take(&self, due: Instant, until: u64) {
        self.due.set(due);
        self.until.set(until);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A deadline is converted once: while it stays, and the counter is before it, a look reads the counter alone.
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
