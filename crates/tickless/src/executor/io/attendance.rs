//! The choice of the one worker that waits for descriptors, and its notification about a new descriptor.
//!
//! A descriptor that is registered while all workers park without looking would never be noticed. Each side writes its
//! own word and then reads the other's, with a full fence in between on both sides (Dekker's pattern, as in
//! [`Idle`](super::super::idle::Idle)):
//!
//! - a thread that registers counts the descriptor, then looks whether a worker waits for descriptors, and wakes one
//!   that parks if none does;
//! - a worker that is about to park says that it is idle, then looks at the count, and waits for descriptors if there
//!   are any and no other worker does.
//!
//! A worker that stops to wait, because it has a task, looks at the count again when it parks next; until then it looks
//! at the descriptors from time to time. Loom runs this as it is (`model.rs`).

use tickless_link::sync::{AtomicBool, AtomicUsize, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The count of descriptors, and the role of the worker that waits for them.
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

    /// Adds a descriptor. [`is_missing`](Self::is_missing) says whether a worker has to be woken for it.
    pub(crate) fn add(&self) {
        // Relaxed: ordered by the fence in `is_missing`.
        self.descriptors.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self) {
        // Relaxed: a worker that still finds it looks for nothing.
        self.descriptors.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether there are any. Called by a worker that parks, behind the fence after its announcement.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        // Relaxed: see above; while a worker has tasks it is a hint.
        self.descriptors.load(Ordering::Relaxed) > 0
    }

    /// Returns whether no worker waits for the descriptor that was added before.
    pub(crate) fn is_missing(&self) -> bool {
        // Pairs with the fence of `Idle::enter`: a worker that gave the role back before that and does not see the
        // descriptor is seen here.
        fence(Ordering::SeqCst);
        // Relaxed: see above.
        !self.taken.load(Ordering::Relaxed)
    }

    /// Takes the role, if no other worker has it.
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
