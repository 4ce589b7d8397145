//! The protocol by which a thread passes an earlier deadline to the expiry thread while the expiry thread goes to
//! sleep.
//!
//! Timer libraries lose wake-ups here: the expiry thread has read all deadlines and is about to sleep; meanwhile a
//! thread writes an earlier deadline, finds the expiry thread awake, and does not wake it. Each side writes its own
//! word and then reads the other's (Dekker's pattern), with a full fence in between on both sides:
//!
//! - the thread writes its deadline, then reads the time until which the expiry thread sleeps, and wakes the expiry
//!   thread if that time is too late;
//! - the expiry thread writes the time until which it will sleep, then reads all deadlines again, and does not sleep if
//!   one of them is earlier.
//!
//! Whatever the order, at least one of the two threads sees the write of the other. The cost for the thread is one
//! store, one fence and one load, and arises only when its deadline becomes earlier than the deadline that it published
//! before.
//!
//! A thread that fires its own timers usually leaves out the fence: it stores its deadline and loads the end of the
//! expiry thread's sleep once. So it may have read an old end, and the expiry thread may not have seen its deadline.
//! Therefore the expiry thread first parks for a short time. After that time it sees all earlier stores, and reads the
//! deadlines again ([`SleepDeadline::park`]).
//!
//! The module has no type parameters and never sleeps itself, so that a Loom model can run this code unchanged
//! (`model.rs`).

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
    /// The expiry thread is awake and will read all deadlines before it sleeps.
    const AWAKE: i64 = i64::MIN;
    /// The value for "never", of deadlines and sleeps.
    pub(crate) const NEVER: i64 = i64::MAX;

    tickless_link::const_unless_loom! {
        /// Returns the state of an expiry thread that does not run yet. Such a thread counts as asleep for ever, so the
        /// first deadline wakes it, which means that it is started.
        pub(crate) const fn new() -> Self {
            Self { wakes_at: AtomicI64::new(Self::NEVER) }
        }
    }

    /// Records that the expiry thread is awake.
    pub(crate) fn awake(&self) {
        // Relaxed: a deadline that a thread writes after it saw this is seen by `sleep`, through its fence.
        self.wakes_at.store(Self::AWAKE, Ordering::Relaxed);
    }

    /// Records that the expiry thread has ended: the next deadline starts another.
    pub(crate) fn gone(&self) {
        // Relaxed: called when there is no other thread.
        self.wakes_at.store(Self::NEVER, Ordering::Relaxed);
    }

    /// Announces that the expiry thread sleeps until `until`. `earliest` reads all deadlines again and returns the
    /// first. Returns `true` if the expiry thread may sleep.
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

    /// Parks the expiry thread, which [may sleep](Self::sleep) until `until`: first until `again`, if that is given,
    /// and then checks once more for a deadline that a thread stored [without a fence](Self::wakes_by). `park` parks
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
    /// The calling thread should have seen that the expiry thread's tree is idle, under a lock that the expiry thread
    /// held afterwards. Then the call reads a word that the expiry thread wrote at that moment or later. Any other
    /// calling thread may read an older word, and relies on the second check of [`park`](Self::park).
    pub(crate) fn wakes_by(&self, deadline: i64) -> bool {
        // Relaxed: see above. An expiry thread that is awake may be on its way to sleep with what it read before.
        let wakes_at = self.wakes_at.load(Ordering::Relaxed);
        wakes_at != Self::AWAKE && wakes_at <= deadline
    }

    /// Returns whether the expiry thread sleeps beyond `deadline`, so that it has to be woken for the word that the
    /// caller has just written. The expiry thread reads that word again before it sleeps.
    pub(crate) fn is_after(&self, deadline: i64) -> bool {
        // Relaxed; the fence pairs with the one in `sleep`.
        fence(Ordering::SeqCst);
        deadline < self.wakes_at.load(Ordering::Relaxed)
    }

    /// Publishes `deadline` in `slot`; `true` if the expiry thread has to be woken for it.
    ///
    /// The caller has locked the base to which the slot belongs, so that there is one writer of earlier deadlines.
    pub(crate) fn publish(&self, slot: &AtomicI64, deadline: i64) -> bool {
        // Relaxed: ordered by the fence of `is_after`.
        slot.store(deadline, Ordering::Relaxed);
        self.is_after(deadline)
    }
}
