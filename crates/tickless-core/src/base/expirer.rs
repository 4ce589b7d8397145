//! The part of a base's types on which the running of callbacks depends.

use tickless_link::lock::{Lock, RawLock};
use tickless_link::sync::{AtomicU32, Ordering};

/// The host's types of which the base of a CPU is made. Each [`Platform`](crate::platform::Platform) has them.
///
/// They are a trait of their own, so that the base does not depend on the methods of a platform, and a platform can
/// name the base.
pub trait BaseTypes {
    /// The lock of a base.
    type Lock: RawLock + Default;
    /// The lock that is held around callbacks.
    type ExpiryLock: RawLock + Default;
    /// Data that the host keeps for each CPU.
    type Local;
}

/// The side of a base on which callbacks run: one runner at a time, and those who wait for it.
pub(crate) struct Expirer<P: BaseTypes> {
    /// The lock that is held around callbacks; its data is the right to run them.
    pub(crate) lock: Lock<P::ExpiryLock, ()>,
    /// Cancellers that wait for a callback (spec CAN-6).
    pub(crate) waiters: AtomicU32,
}

impl<P: BaseTypes> Expirer<P> {
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
