//! A request to a thread to check its queues. Another thread raises the request, without a lock, even while the first
//! thread programs its device.
//!
//! A [device](super::device) is set with the base of its thread locked, so that the events for which it is set do not
//! change meanwhile. A kick acquires no lock, because its sender may hold a lock. So a kick may make a device due, and
//! just afterwards a thread that did not see the kick may set the device for a later time. Each side writes its own
//! word and then reads the other's (Dekker's pattern), with a full fence in between on both sides:
//!
//! - the sender raises the kick, then reads the kind of the device, and makes the device due;
//! - the thread that sets or replaces the device checks for a kick afterwards, and makes the device due if there is
//!   one.
//!
//! Whatever the order, the device is due in the end. The module itself sets no device, so that a Loom model can run
//! this code unchanged (`model.rs`).

use tickless_link::sync::{AtomicBool, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The request to check the queues.
#[derive(Debug)]
pub(crate) struct Kick {
    raised: AtomicBool,
}

impl Kick {
    pub(crate) fn new() -> Self {
        Self {
            raised: AtomicBool::new(false),
        }
    }

    /// Raises the request. Afterwards the caller makes the device due that the thread has at that time.
    pub(crate) fn raise(&self) {
        // Release: pairs with the Acquire in `take`: the turn that takes it sees what was done before.
        self.raised.store(true, Ordering::Release);
        // Pairs with the fence in `was_raised_meanwhile`.
        fence(Ordering::SeqCst);
    }

    /// Returns whether there is a request. Lock-free.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        // Relaxed: a hint; the turn takes it with Acquire.
        self.raised.load(Ordering::Relaxed)
    }

    /// Returns whether a request was raised before the caller's change of the device was complete. The caller then has
    /// to make the device due.
    pub(crate) fn was_raised_meanwhile(&self) -> bool {
        // Pairs with the fence in `raise`: a sender whose request is not seen here finds the device as it was left.
        fence(Ordering::SeqCst);
        self.is_raised()
    }

    /// Clears the request. Returns true if there was one.
    pub(crate) fn take(&self) -> bool {
        // Acquire: see `raise`.
        self.raised.swap(false, Ordering::Acquire)
    }

    /// Clears the request.
    pub(crate) fn reset(&self) {
        // Relaxed: called where the thread that would be asked is not there.
        self.raised.store(false, Ordering::Relaxed);
    }
}
