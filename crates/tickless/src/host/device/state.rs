//! The words of a thread's [device](super): its due time, and the time that the device is set for.
//!
//! # Ground rules
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `programmed` | the core with the base locked; the turn of the base | the turn, and threads that set the device, with the base locked; others as a hint |
//! | `set_for` | threads that set the device, with the base locked; the event loop's thread | the same, and the thread itself |
//! | `soft_raised`, `left_over` | the turn of the base | the turn; threads that set the device |
//! | [`kick`](DeviceState::kick) | any thread, without a lock | see [`Kick`] |
//!
//! All accesses but the kick's are Relaxed. The base lock orders the accesses under it. A thread that takes turns for a
//! base is ordered after the last turn by the kind of the thread, which gave it the base, or by its own program order.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tickless_core::time::Instant;

use crate::host::kick::Kick;
use crate::host::sleep_protocol::SleepDeadline;
use crate::host::sys::timers::{self, BorrowedTimer, TimerSlot};

/// The state of a thread's device: the time of its next event, and the time for which the device is set.
#[derive(Debug)]
pub(crate) struct DeviceState {
    /// The time that the base programmed for its exact timers, in nanoseconds.
    programmed: AtomicI64,
    /// The time for which the device is set, as far as the thread remembers, in nanoseconds.
    set_for: AtomicI64,
    /// True if soft timers are due, or if the last turn left some.
    soft_raised: AtomicBool,
    /// The time at which the last turn spent its budget and left timers, in nanoseconds.
    left_over: AtomicI64,
    /// A request to check the queues.
    pub(crate) kick: Kick,
    /// The timer file descriptor that an event loop watches.
    pub(crate) timerfd: TimerSlot,
}

impl DeviceState {
    const NEVER: i64 = SleepDeadline::NEVER;
    /// The setting of a device that fired and was not set again: neither a time nor [`NEVER`](Self::NEVER).
    const USED_UP: i64 = i64::MIN;

    pub(crate) fn new() -> Self {
        Self {
            programmed: AtomicI64::new(Self::NEVER),
            set_for: AtomicI64::new(Self::NEVER),
            soft_raised: AtomicBool::new(false),
            left_over: AtomicI64::new(0),
            kick: Kick::new(),
            timerfd: TimerSlot::new(),
        }
    }

    /// Forgets the due time of a thread that has ended. The time for which the device is set stays, because the
    /// descriptor and the trees still hold it.
    pub(crate) fn forget(&self) {
        // Relaxed, both: the base has no thread, or the process has no other.
        self.programmed.store(Self::NEVER, Ordering::Relaxed);
        self.soft_raised.store(false, Ordering::Relaxed);
        self.kick.reset();
    }

    /// Returns the time at which something other than a coarse timer is due: a kick, an exact timer, or a timer that
    /// the last turn left.
    #[inline]
    pub(crate) fn due(&self) -> Instant {
        if self.kick.is_raised() {
            return Instant::ZERO;
        }
        self.exact_due()
    }

    /// Returns the time at which exact timers are due, or the exact timers that the last turn left.
    #[inline]
    pub(crate) fn exact_due(&self) -> Instant {
        // Relaxed, all: see the ground rules.
        let exact = self.programmed.load(Ordering::Relaxed);
        let first = if self.soft_raised.load(Ordering::Relaxed) {
            exact.min(self.left_over.load(Ordering::Relaxed))
        } else {
            exact
        };
        Instant::from_nanos(first)
    }

    /// Returns the time that the base programmed for its exact timers.
    pub(crate) fn programmed(&self) -> Instant {
        Instant::from_nanos(self.programmed.load(Ordering::Relaxed))
    }

    /// Records that the base programs `when` for its exact timers. Called with the base locked.
    #[inline]
    pub(super) fn program(&self, when: Instant) {
        self.programmed.store(when.as_nanos(), Ordering::Relaxed);
    }

    /// Returns whether a turn at `now` has to check for exact timers.
    #[inline]
    pub(crate) fn has_exact_work(&self, now: Instant) -> bool {
        self.programmed() <= now || self.soft_raised.load(Ordering::Relaxed)
    }

    /// Clears the programmed time if it is `now` or earlier, which means that the device fired. Returns whether it
    /// fired.
    ///
    /// If the thread of the base programs an earlier deadline at this moment, this call overwrites that deadline, but
    /// the interrupt that the caller executes next finds its timer.
    pub(crate) fn take_programmed(&self, now: Instant) -> bool {
        let is_due = self.programmed() <= now;
        if is_due {
            self.programmed.store(Self::NEVER, Ordering::Relaxed);
        }
        is_due
    }

    /// Records that soft timers are due, for the turn that the thread executes.
    pub(crate) fn raise_soft(&self) {
        self.soft_raised.store(true, Ordering::Relaxed);
    }

    /// Clears the request for the soft stage. Returns true if there was one.
    pub(crate) fn take_soft(&self) -> bool {
        self.soft_raised.swap(false, Ordering::Relaxed)
    }

    /// Records that a turn at `now` spent its budget. The timers that it left are due from `now` on, not from their
    /// deadlines, so that timers that were due before are fired first. For soft timers there is no other event for
    /// which the device could be set.
    pub(crate) fn leave_over(&self, now: Instant) {
        // Relaxed, both: what follows sets the device, with the base locked.
        self.left_over.store(now.as_nanos(), Ordering::Relaxed);
        self.programmed.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the time for which the device is set.
    #[inline]
    pub(super) fn set_for(&self) -> Instant {
        Instant::from_nanos(self.set_for.load(Ordering::Relaxed))
    }

    /// Records that the device is set for `due`. Called with the base locked.
    #[inline]
    pub(super) fn note_set(&self, due: Instant) {
        self.set_for.store(due.as_nanos(), Ordering::Relaxed);
    }

    /// Marks the time for which the device was set as used up by the thread.
    pub(super) fn use_up(&self) {
        self.set_for.store(Self::USED_UP, Ordering::Relaxed);
    }

    /// Sets the device for `due`. A thread that sleeps by `sleeper` watches the device. Returns true if that thread has
    /// to be woken.
    pub(super) fn publish_to(&self, sleeper: &SleepDeadline, due: Instant) -> bool {
        sleeper.publish(&self.set_for, due.as_nanos())
    }

    /// Returns the timer file descriptor that rings when something is due; makes it on first use.
    pub(crate) fn timerfd(&self) -> std::io::Result<BorrowedTimer<'_>> {
        timers::of(&self.timerfd)
    }
}
