//! A request to a thread to check its queues. Another thread raises it, without a lock, even while the first one
//! programs its device.
//!
//! A [device](super::device) is set with the base of its thread locked, so that nothing that it stands for changes
//! meanwhile; a kick takes no lock, because its sender may hold one. So a device can be set for a later time just after
//! a kick made it due, by a thread that had looked before. Each side writes its own word and then reads the other's
//! (Dekker's pattern), with a full fence in between on both sides:
//!
//! - the sender raises the kick, then looks what the device is, and makes it due;
//! - the thread that sets the device, or makes it another one, looks for a kick afterwards, and then makes it due.
//!
//! Whatever the order, the device is due in the end. The module sets nothing itself, so that loom runs it as it is
//! (`model.rs`).

use tickless_link::sync::{AtomicBool, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The request.
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

    /// Raises the request. The caller makes the device due afterwards, whatever the thread's device is by then.
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

    /// Returns whether a request came before the caller's change of the device was done: then the caller makes it due.
    pub(crate) fn was_raised_meanwhile(&self) -> bool {
        // Pairs with the fence in `raise`: a sender whose request is not seen here finds the device as it was left.
        fence(Ordering::SeqCst);
        self.is_raised()
    }

    /// Takes the request, if there is one.
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
