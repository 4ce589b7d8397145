//! The choice of the one worker that waits for descriptors, and its notification about a new descriptor.
//!
//! A descriptor could be registered while all workers park without a wait for descriptors, and would then never be
//! noticed. Against that, each side writes its own word and then reads the other side's word, with a full fence in
//! between on both sides (Dekker's pattern, as in [`Idle`](super::super::idle::Idle)):
//!
//! - A thread that registers a descriptor first counts it, and then checks whether a worker waits for descriptors. If
//!   no worker does, the thread wakes one that parks.
//! - A worker that is about to park first announces that it is idle, and then reads the count. It waits for descriptors
//!   if the count is not zero and no other worker waits for them.
//!
//! A worker that stops waiting, because it has a task, reads the count again when it parks next. Until then it checks
//! the descriptors from time to time. Loom runs this code unchanged (`model.rs`).

use tickless_link::sync::{AtomicBool, AtomicUsize, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The count of descriptors, and the role of the worker that waits for descriptors.
#[derive(Debug)]
pub(crate) struct Attendance {
    descriptors: AtomicUsize,
    taken: AtomicBool,
}

impl Attendance {
    pub(crate) fn new() -> Self {
        Self {
            descriptors: AtomicUsize::new(0),
            taken: AtomicBool::new(false),
        }
    }

    /// Adds a descriptor. [`is_missing`](Self::is_missing) then returns whether a worker has to be woken for it.
    pub(crate) fn add(&self) {
        // Relaxed: ordered by the fence in `is_missing`.
        self.descriptors.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self) {
        // Relaxed: a worker that still finds it looks for nothing.
        self.descriptors.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether any descriptors are registered. Called by a worker that parks, after the fence that follows its
    /// announcement.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        // Relaxed: see above; while a worker has tasks it is a hint.
        self.descriptors.load(Ordering::Relaxed) > 0
    }

    /// Returns whether no worker waits for the descriptor that was added before the call.
    pub(crate) fn is_missing(&self) -> bool {
        // Pairs with the fence of `Idle::enter`: a worker that gave the role back before that and does not see the
        // descriptor is seen here.
        fence(Ordering::SeqCst);
        // Relaxed: see above.
        !self.taken.load(Ordering::Relaxed)
    }

    /// Takes the role of the waiting worker, if no other worker has it.
    pub(crate) fn take(&self) -> Option<Role<'_>> {
        // Acquire: pairs with the Release in `drop`, so that two do not wait at once.
        let was_taken = self.taken.swap(true, Ordering::Acquire);
        (!was_taken).then_some(Role(self))
    }
}

/// The role of the worker that waits for descriptors.
#[derive(Debug)]
#[must_use = "dropped at once, no worker has it"]
pub(crate) struct Role<'a>(&'a Attendance);

impl Drop for Role<'_> {
    fn drop(&mut self) {
        // Release: see `take`.
        self.0.taken.store(false, Ordering::Release);
    }
}
