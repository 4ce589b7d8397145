//! The protocol by which a thread passes an earlier deadline to the expiry thread while the expiry thread goes to
//! sleep.
//!
//! Timer libraries lose wake-ups here: the expiry thread has looked at all deadlines and is about to sleep, a thread
//! writes an earlier one and finds that the expiry thread is "awake, it will see it". Each side writes its own word and
//! then reads the other's (Dekker's pattern), with a full fence in between on both sides:
//!
//! - the thread writes its deadline, then reads until when the expiry thread sleeps, and wakes it if that is too late;
//! - the expiry thread writes until when it will sleep, then reads all deadlines again, and does not sleep if one is
//!   earlier.
//!
//! Whatever the order, at least one of them sees the other. Cost for the thread: one store, one fence, one load, and
//! only when a deadline becomes earlier than the one it published before.
//!
//! A thread that runs its own timers leaves out the fence as a rule: it stores its deadline and loads the end of the
//! expiry thread's sleep once. So it may have read an old end, and the expiry thread may not have seen its deadline.
//! Therefore the expiry thread parks for a while first, after which it sees all earlier stores, and looks again
//! ([`SleepDeadline::park`]).
//!
//! The module is generic over nothing and sleeps nowhere, so that loom runs it as it is (`model.rs`).

use tickless_link::sync::{AtomicI64, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The time until which the expiry thread sleeps.
#[derive(Debug)]
pub(crate) struct SleepDeadline {
    /// [`AWAKE`](Self::AWAKE) or the time at which the expiry thread will wake by itself, in nanoseconds.
    wakes_at: AtomicI64,
}

impl SleepDeadline {
    /// The expiry thread is awake and will look at all deadlines before it sleeps.
    const AWAKE: i64 = i64::MIN;
    /// "Never", for deadlines and sleeps.
    pub(crate) const NEVER: i64 = i64::MAX;

    tickless_link::const_unless_loom! {
        /// An expiry thread that does not run yet: it would sleep for ever, so the first deadline wakes (that is,
        /// starts) it.
        pub(crate) const fn new() -> Self {
            Self { wakes_at: AtomicI64::new(Self::NEVER) }
        }
    }

    /// The expiry thread is awake from here on.
    pub(crate) fn awake(&self) {
        // Relaxed: a deadline that a thread writes after it saw this is seen by `sleep`, through its fence.
        self.wakes_at.store(Self::AWAKE, Ordering::Relaxed);
    }

    /// The expiry thread is gone: the next deadline starts another.
    pub(crate) fn gone(&self) {
        // Relaxed: called when there is no other thread.
        self.wakes_at.store(Self::NEVER, Ordering::Relaxed);
    }

    /// The expiry thread wants to sleep until `until`; `earliest` reads all deadlines again and returns the first.
    /// `true` if it may.
    pub(crate) fn sleep(&self, until: i64, earliest: impl FnOnce() -> i64) -> bool {
        // Relaxed on both accesses; the order between them is the fence's work, which pairs with the one in `publish`.
        self.wakes_at.store(until, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if earliest() < until {
            self.awake();
            return false;
        }
        true
    }

    /// Parks the expiry thread, which [may sleep](Self::sleep) until `until`: by way of `again`, if that is given,
    /// where it looks once more for a deadline that a thread stored [without a fence](Self::wakes_by). `park` parks
    /// until a time and returns true if the thread was woken.
    pub(crate) fn park(
        &self,
        until: i64,
        again: Option<i64>,
        earliest: impl FnOnce() -> i64,
        mut park: impl FnMut(i64) -> bool,
    ) {
        if let Some(again) = again
            && (park(again) || earliest() < until)
        {
            return;
        }
        park(until);
    }

    /// Returns the time until which the expiry thread sleeps, for display; `None` while it is awake, and if it would
    /// sleep for ever.
    pub(crate) fn sleeps_until(&self) -> Option<i64> {
        // Relaxed: of some moment.
        let wakes_at = self.wakes_at.load(Ordering::Relaxed);
        (wakes_at != Self::AWAKE && wakes_at != Self::NEVER).then_some(wakes_at)
    }

    /// Returns whether the expiry thread wakes by itself at `deadline` or before.
    ///
    /// Asked by a thread that saw, under a lock that the expiry thread held afterwards, that the expiry thread's tree
    /// is idle: then what is read here is its word since that moment or a later one. A thread that did not see that may
    /// read an older word, and counts on the second look of [`park`](Self::park).
    pub(crate) fn wakes_by(&self, deadline: i64) -> bool {
        // Relaxed: see above. An expiry thread that is awake may be on its way to sleep with what it read before.
        let wakes_at = self.wakes_at.load(Ordering::Relaxed);
        wakes_at != Self::AWAKE && wakes_at <= deadline
    }

    /// Returns whether the expiry thread sleeps beyond `deadline`, so that it has to be woken for something that the
    /// caller has just written and that the expiry thread reads again before it sleeps.
    pub(crate) fn is_after(&self, deadline: i64) -> bool {
        // Relaxed; the fence pairs with the one in `sleep`.
        fence(Ordering::SeqCst);
        deadline < self.wakes_at.load(Ordering::Relaxed)
    }

    /// Publishes `deadline` in `slot`; `true` if the expiry thread has to be woken for it.
    ///
    /// The caller holds the base that the slot belongs to, so that there is one writer of earlier deadlines.
    pub(crate) fn publish(&self, slot: &AtomicI64, deadline: i64) -> bool {
        // Relaxed: ordered by the fence of `is_after`.
        slot.store(deadline, Ordering::Relaxed);
        self.is_after(deadline)
    }
}
