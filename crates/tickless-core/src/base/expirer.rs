//! The part of a base's types on which the running of callbacks depends.

use tickless_link::lock::{Lock, RawLock};
use tickless_link::sync::{AtomicU32, Ordering};

/// The types of the host that the base of a CPU contains. Each [`Platform`](crate::platform::Platform) defines them.
///
/// These types have a trait of their own, so that the base does not depend on the methods of a platform, and a platform
/// can name the type of the base.
pub trait BaseTypes {
    /// The type of the lock of a base.
    type Lock: RawLock + Default;
    /// The type of the lock that a thread holds while it runs callbacks.
    type ExpiryLock: RawLock + Default;
    /// The type of the data that the host keeps for each CPU.
    type Local;
}

/// The part of a base that runs callbacks: a lock for one runner at a time, and the number of threads that wait for the
/// runner.
pub(crate) struct Expirer<P: BaseTypes> {
    /// The lock that a thread holds while it runs callbacks. Only the holder may run them.
    pub(crate) lock: Lock<P::ExpiryLock, ()>,
    /// The number of cancellers that wait for a callback (spec CAN-6).
    pub(crate) waiters: AtomicU32,
}

impl<P: BaseTypes> Expirer<P> {
    pub(super) fn new() -> Self {
        Self {
            lock: Lock::new(P::ExpiryLock::default(), ()),
            waiters: AtomicU32::new(0),
        }
    }

    /// Ends the work of a runner that no longer exists: sets the number of its waiters to zero, and calls `free` to
    /// free the lock.
    pub(super) fn end(&self, free: &mut impl FnMut(&P::ExpiryLock)) {
        // Relaxed: there is no other thread.
        self.waiters.store(0, Ordering::Relaxed);
        free(self.lock.raw());
    }
}
