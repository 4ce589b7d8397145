//! The counters of a base.

use crate::event::flush::Flush;
use crate::exact::family::Placement;
use crate::time::Span;

/// The counters of a base. All counts begin at zero when the base is made, and never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of timer interrupts.
    pub interrupts: u64,
    /// Passes over the queues in interrupts: one for each interrupt, and one for each retry.
    pub passes: u64,
    /// Interrupts that gave up after three passes (spec IRQ-2).
    pub hangs: u64,
    /// The duration of the longest such interrupt.
    pub max_hang: Span,
    /// Interrupts that found nothing to do (spec IRQ-9).
    pub spurious: u64,
    /// Interrupts and soft stages that returned with timers still due, because their budget was spent.
    pub budget_exhausted: u64,
    /// Starts and restarts that ended on this base.
    pub starts: u64,
    /// Restarts that kept the timer's place in the tree, and changed its key to the new deadline.
    pub in_place: u64,
    /// Restarts that left the timer in the tree with its old key, which is earlier than its new deadline. The timer is
    /// enqueued again when it comes to the front.
    pub filed_early: u64,
    /// Restarts that left the timer in its bucket of the far wheel.
    pub far_in_slot: u64,
    /// Timers that fired.
    pub expired: u64,
    /// Restarts by callbacks that were delayed by a pause, because the callback takes longer than the time by which it
    /// moves the deadline forward.
    pub paced: u64,
    /// Pending timers that were cancelled.
    pub cancelled: u64,
    /// Timers that came from another base.
    pub arrived: u64,
    /// Writes to the device.
    pub device_writes: u64,
    /// Searches whose next event was before the beginning of the monotonic clock; the device was programmed for the
    /// beginning of the clock (spec Q-22).
    pub clamped: u64,
    /// Timers that fired, or are about to fire, because their clock was set (spec TIM-34).
    pub told_of_sets: u64,
    /// Writes for an event that had passed, so that the device was programmed for its shortest delay. A device that
    /// takes an instant or a counter value detects this itself; its writes are not counted.
    pub written_late: u64,
    /// Searches for the next event.
    pub evaluations: u64,
    /// Kicks that made this base check its queues.
    pub kicks: u64,
    /// Deferred rearms carried out, for each kind of flush point (spec ).
    pub flushes: [u64; Flush::COUNT],
    /// Flushes that had to evaluate the queues again.
    pub stale_flushes: u64,
    /// Interrupts that occurred while a deferred rearm was owed, which shows that the host lacks a flush point.
    pub missed_flushes: u64,
    /// Coarse timers that were armed or modified on this base.
    pub coarse_arms: u64,
    /// Restarts of coarse timers that kept their bucket.
    pub coarse_in_slot: u64,
    /// Coarse timers that fired.
    pub coarse_expired: u64,
    /// Coarse timers that were enqueued again, because their slot was due before the timers.
    pub coarse_requeued: u64,
    /// Pending coarse timers that were cancelled.
    pub coarse_cancelled: u64,
}

impl Stats {
    /// Returns the number of restarts that dequeued no timer: those that kept their place in the tree, with the new key
    /// or the old one, and those that kept their bucket of the far wheel.
    #[must_use]
    pub const fn kept(&self) -> u64 {
        self.in_place + self.filed_early + self.far_in_slot
    }

    /// Returns these counts in the form for users. Internally `starts` and `coarse_arms` include only timers that
    /// moved, so that the shortest path, a push-out in place, increments only one counter.
    pub(crate) const fn told(mut self) -> Self {
        self.starts += self.kept();
        self.coarse_arms += self.coarse_in_slot;
        self
    }

    /// Counts a start that left its timer at `place`.
    #[inline]
    pub(crate) fn note_start(&mut self, place: Placement) {
        match place {
            Placement::Moved => self.starts += 1,
            Placement::InPlace => self.in_place += 1,
            Placement::FiledEarly => self.filed_early += 1,
            Placement::FarSlot => self.far_in_slot += 1,
        }
    }
}
