//! The executor's share of the counters that each worker's base keeps.
//!
//! A base counts from its first use on, for all threads that use it one after the other, also after the executor's end.
//! So a worker records the counts when it begins and when it ends.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::worker::Unparker;

/// The counts that are read from a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) timer_starts: u64,
    pub(crate) in_place: u64,
    pub(crate) filed_early: u64,
    pub(crate) far_in_slot: u64,
    /// The number of timers that left the queue of the base, because they fired or were cancelled.
    pub(crate) timer_ends: u64,
    /// The number of timers that are queued on the base now; after the worker's end, the number of timers that the
    /// worker left queued.
    pub(crate) queued: u64,
    pub(crate) interrupts: u64,
    pub(crate) spurious: u64,
}

impl Counted {
    /// Returns the counts of a worker's base so far.
    fn by(worker: &Unparker) -> Self {
        let timers = worker.timer_stats();
        Self {
            timer_starts: timers.starts,
            in_place: timers.in_place,
            filed_early: timers.filed_early,
            far_in_slot: timers.far_in_slot,
            timer_ends: timers.expired + timers.cancelled,
            queued: worker.queued_timers(),
            interrupts: timers.interrupts,
            spurious: timers.spurious,
        }
    }

    /// Returns the counts since `before`.
    fn since(self, before: Self) -> Self {
        Self {
            timer_starts: self.timer_starts - before.timer_starts,
            in_place: self.in_place - before.in_place,
            filed_early: self.filed_early - before.filed_early,
            far_in_slot: self.far_in_slot - before.far_in_slot,
            timer_ends: self.timer_ends - before.timer_ends,
            // The base of a thread that is over has none: another took them.
            queued: self.queued,
            interrupts: self.interrupts - before.interrupts,
            spurious: self.spurious - before.spurious,
        }
    }
}

/// A worker's share of the counts of its base.
#[derive(Debug, Default)]
pub(crate) struct OnBase(Mutex<Part>);

#[derive(Debug, Default)]
enum Part {
    /// The worker has not begun.
    #[default]
    Nothing,
    /// The worker began, with these counts of the base.
    From(Unparker, Counted),
    /// The worker has ended, with these counts of its own.
    Whole(Counted),
}

impl OnBase {
    /// Records the counts of the base when the worker begins.
    pub(crate) fn begin(&self, worker: Unparker) {
        let found = Counted::by(&worker);
        *self.lock() = Part::From(worker, found);
    }

    /// Records the counts of the base when the worker ends.
    pub(crate) fn end(&self) {
        let mut part = self.lock();
        *part = Part::Whole(part.counted());
    }

    /// Returns the counts of the worker's base since the worker began, up to its end.
    pub(crate) fn counted(&self) -> Counted {
        self.lock().counted()
    }

    fn lock(&self) -> MutexGuard<'_, Part> {
        // Nothing panics under it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    fn counted(&self) -> Counted {
        match self {
            Self::Nothing => Counted::default(),
            Self::From(worker, found) => Counted::by(worker).since(*found),
            Self::Whole(counted) => *counted,
        }
    }
}
