//! The shutdown state of a task: a flag that says that the task is to be ended, and the place of the waker that makes a
//! worker poll the task then.
//!
//! A task is listed by its worker, with a waker, when it waits for something for the first time. Until then the task is
//! in a queue, or is being polled. So an abort that finds no place has no task to wake. But a task that is about to
//! wait must not miss the abort. Each side writes its own word and then reads the other's, with a full fence in between
//! on both sides (Dekker's pattern, as in [`Idle`](super::idle::Idle)):
//!
//! - an abort sets the flag, then reads the place;
//! - the worker writes the place, then reads the flag, and wakes the task itself if the flag is set.
//!
//! A Loom model runs this code unchanged (`model.rs`).

use tickless_link::sync::{AtomicBool, AtomicU32, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The shutdown state of a task.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The number of the worker that lists the task; the next field is the slot in that worker's list.
    home: AtomicU32,
    slot: AtomicU32,
    /// True if the task ends at its next poll.
    aborted: AtomicBool,
}

/// The slot of a task that is not listed.
const NONE: u32 = u32::MAX;

impl Listing {
    /// Returns the state of a task that is not listed.
    pub(crate) fn new() -> Self {
        Self {
            home: AtomicU32::new(0),
            slot: AtomicU32::new(NONE),
            aborted: AtomicBool::new(false),
        }
    }

    /// Returns the place of the task in a list; `None` if the task has not waited yet.
    #[inline]
    pub(crate) fn place(&self) -> Option<(usize, usize)> {
        // Acquire: pairs with the Release in `set_place`, so that the home is seen.
        let slot = self.slot.load(Ordering::Acquire);
        // Relaxed: written before the slot.
        let home = self.home.load(Ordering::Relaxed);
        (slot != NONE).then_some((home as usize, slot as usize))
    }

    /// Returns whether the task is in a list.
    #[inline]
    pub(crate) fn is_listed(&self) -> bool {
        // Relaxed: asked by the thread that polls the task, which alone lists it.
        self.slot.load(Ordering::Relaxed) != NONE
    }

    /// Records that the task is in the list of the worker `home`. Returns true if the task has been aborted meanwhile;
    /// then the caller has to wake it.
    pub(crate) fn set_place(&self, home: usize, slot: usize) -> bool {
        // Relaxed: published with the slot.
        self.home.store(number(home), Ordering::Relaxed);
        // Release: pairs with the Acquire in `place`.
        self.slot.store(number(slot), Ordering::Release);
        // Pairs with the fence in `abort`: of two that come at once one sees the other.
        fence(Ordering::SeqCst);
        self.is_aborted()
    }

    /// Sets the flag that ends the task at its next poll.
    pub(crate) fn mark_aborted(&self) {
        // Release: pairs with the Acquire in `is_aborted`.
        self.aborted.store(true, Ordering::Release);
    }

    /// Marks the task as [`mark_aborted`](Self::mark_aborted) does. Returns the place of the waker by which the caller
    /// has to wake the task, if the task may wait.
    pub(crate) fn abort(&self) -> Option<(usize, usize)> {
        self.mark_aborted();
        // Pairs with the fence in `set_place`.
        fence(Ordering::SeqCst);
        self.place()
    }

    /// Returns whether the task ends at its next poll.
    #[inline]
    pub(crate) fn is_aborted(&self) -> bool {
        // Acquire: see `mark_aborted`.
        self.aborted.load(Ordering::Acquire)
    }
}

/// Returns the number of a worker or of a slot as a `u32`. There are fewer than 2^32 of each, because each needs
/// memory.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
