//! A flag by which other code requests that the running task of a thread gives way.
//!
//! Any thread sets it, and so does the handler of a signal; the thread that it belongs to reads it at its checkpoints
//! and takes it back when it schedules. It is a hint: the change behind it (a task that was queued, a timer that is
//! due) is found where that is written: in the queues, or in a word such as "the workers end".
//!
//! No request is lost for which there is nothing to be found yet. The thread takes back the request that it has seen,
//! by an exchange that is ordered behind the writes before the request, and then looks. A request that it did not see
//! stays, and costs one look for nothing if the change behind it was found. Loom runs this as it is (`model.rs`).

use tickless_link::sync::{AtomicBool, Ordering};

#[cfg(all(test, loom))]
mod model;

/// The flag.
#[derive(Debug)]
pub(crate) struct Resched {
    requested: AtomicBool,
    /// The tick of the worker fired.
    ticked: AtomicBool,
}

impl Resched {
    pub(crate) fn new() -> Self {
        Self {
            requested: AtomicBool::new(false),
            ticked: AtomicBool::new(false),
        }
    }

    /// Raises the request. The caller has written the state that it announces before. Safe in a signal handler.
    #[inline]
    pub(crate) fn request(&self) {
        // Release: pairs with the Acquire in `clear`. An exchange, so that the thread that takes back the last of
        // several requests is ordered behind all of them.
        self.requested.swap(true, Ordering::Release);
    }

    /// The tick of the worker fired, which asks too.
    pub(crate) fn tick(&self) {
        // Relaxed: written and taken by the worker's own thread.
        self.ticked.store(true, Ordering::Relaxed);
        self.request();
    }

    /// Returns whether the tick fired since this was called last.
    pub(crate) fn take_tick(&self) -> bool {
        // Relaxed, both: see `tick`.
        let ticked = self.ticked.load(Ordering::Relaxed);
        self.ticked.store(false, Ordering::Relaxed);
        ticked
    }

    /// Returns whether there is a request.
    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        // Relaxed: a hint; what it stands for is looked for behind `clear`.
        self.requested.load(Ordering::Relaxed)
    }

    /// Takes the request back, if there is one. The thread looks afterwards for the change behind the request.
    #[inline]
    pub(crate) fn clear(&self) -> bool {
        // Acquire: see `request`. A request that is not seen is not overwritten.
        self.is_requested() && self.requested.swap(false, Ordering::Acquire)
    }
}
