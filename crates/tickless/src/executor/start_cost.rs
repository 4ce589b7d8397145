//! Measurements of the cycles of the time-stamp counter that a start of the tick takes.

use std::cell::Cell;

use crate::host::clock::counter;

/// The number of starts of which one is timed, because two readings of the counter take as long as a start.
const EVERY: u32 = 16;
/// The number of cycles from which on a start counts as interrupted by the system or by the hypervisor.
const INTERRUPTED: u64 = 1 << 16;

/// A measurement of the starts of the tick by all workers; see [`Executor::start_cost`](super::Executor::start_cost).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartCost {
    /// The number of starts that were timed: one in sixteen.
    pub timed: u64,
    /// The total cycles of the timed starts by the time-stamp counter, one reading of the counter included in each.
    pub cycles: u64,
    /// The number of starts that took 65,536 cycles or more, because another thread ran meanwhile. These starts are in
    /// neither of the fields above.
    pub interrupted: u64,
}

impl StartCost {
    /// Returns the mean number of cycles of a start; [`None`] if no start was timed.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a mean of few digits")]
        let mean = self.cycles as f64 / self.timed.max(1) as f64;
        (self.timed > 0).then_some(mean)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.timed += other.timed;
        self.cycles += other.cycles;
        self.interrupted += other.interrupted;
    }
}

/// A stopwatch for the starts of one tick. The lock of the worker's run queue protects it.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// The number of starts until the next one is timed.
    left: Cell<u32>,
    sum: Cell<StartCost>,
}

impl Stopwatch {
    /// Executes a start, and times one start of `EVERY`.
    #[inline]
    pub(crate) fn time(&self, start: impl FnOnce()) {
        let left = self.left.get();
        if left > 0 {
            self.left.set(left - 1);
            start();
            return;
        }
        self.left.set(EVERY - 1);
        let before = counter::read();
        start();
        self.note(counter::read().saturating_sub(before));
    }

    fn note(&self, cycles: u64) {
        let mut sum = self.sum.get();
        if cycles < INTERRUPTED {
            sum.timed += 1;
            sum.cycles += cycles;
        } else {
            sum.interrupted += 1;
        }
        self.sum.set(sum);
    }

    pub(crate) fn sum(&self) -> StartCost {
        self.sum.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_start_in_sixteen_is_timed_and_each_is_executed() {
        let watch = Stopwatch::default();
        let started = Cell::new(0);
        for _ in 0..160 {
            watch.time(|| started.set(started.get() + 1));
        }
        let sum = watch.sum();
        assert_eq!((started.get(), sum.timed + sum.interrupted), (160, 10));
    }

    #[test]
    fn what_was_interrupted_is_counted_apart() {
        let watch = Stopwatch::default();
        assert_eq!(watch.sum().mean(), None);
        for cycles in [100, INTERRUPTED - 1, INTERRUPTED, 200, u64::MAX] {
            watch.note(cycles);
        }
        let expected = StartCost {
            timed: 3,
            cycles: 300 + INTERRUPTED - 1,
            interrupted: 2,
        };
        assert_eq!(watch.sum(), expected);
    }
}
