//! The side of a base on which callbacks run.

use tickless_link::lock::Lock;
use tickless_link::sync::{AtomicU32, Ordering};

use crate::platform::Platform;

/// The side of a base on which callbacks run: one runner at a time, and those who wait for it.
pub(crate) struct Expirer<P: Platform> {
    /// Held around the callbacks; the data is the right to run them.
    pub(crate) lock: Lock<P::ExpiryLock, ()>,
    /// Cancellers that wait for a callback (spec CAN-6).
    pub(crate) waiters: AtomicU32,
}

impl<P: Platform> Expirer<P> {
    pub(super) fn new() -> Self {
        Self {
            lock: Lock::new(P::ExpiryLock::default(), ()),
            waiters: AtomicU32::new(0),
        }
    }

    /// Forgets a runner and those who waited for it, which are gone, and has `free` free the lock.
    pub(super) fn end(&self, free: &mut impl FnMut(&P::ExpiryLock)) {
        // Relaxed: there is no other thread.
        self.waiters.store(0, Ordering::Relaxed);
        free(self.lock.raw());
    }
}
