//! A flag by which other code requests that the running task of a thread yields.
//!
//! Any thread may set the flag. The thread that owns the flag reads it at its checkpoints
//! and clears it when it schedules. The flag is a hint: the change that it announces (a queued task, a due timer) is in
//! the queues, or in a word like "the workers end".
//!
//! No request is lost before its change is found. The thread clears the request that it has seen by an exchange, which
//! is ordered after the writes before the request, and then checks for changes. A request that it did not see stays
//! set, and costs one useless check if its change was found already. A Loom model runs this code unchanged
//! (`model.rs`).

use tickless_link::sync::{AtomicBool, Ordering};

#[cfg(all(test, loom))]
mod model;

/// The flag.
#[derive(Debug)]
pub(crate) struct Resched {
    requested: AtomicBool,
    /// True if the tick of the worker fired.
    ticked: AtomicBool,
}

impl Resched {
    pub(crate) fn new() -> Self {
        Self {
            requested: AtomicBool::new(false),
            ticked: AtomicBool::new(false),
        }
    }

    /// Raises the request. Before the call, the caller has written the change that the request announces.
    #[inline]
    pub(crate) fn request(&self) {
        // Release: pairs with the Acquire in `clear`. An exchange, so that the thread that takes back the last of
        // several requests is ordered after all of them.
        self.requested.swap(true, Ordering::Release);
    }

    /// Records that the tick of the worker fired, and raises the request.
    pub(crate) fn tick(&self) {
        // Relaxed: written and taken by the worker's own thread.
        self.ticked.store(true, Ordering::Relaxed);
        self.request();
    }

    /// Returns whether the tick fired since the last call.
    pub(crate) fn take_tick(&self) -> bool {
        // Relaxed, both: see `tick`.
        let ticked = self.ticked.load(Ordering::Relaxed);
        self.ticked.store(false, Ordering::Relaxed);
        ticked
    }

    /// Returns whether there is a request.
    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        // Relaxed: a hint; what it stands for is looked for after `clear`.
        self.requested.load(Ordering::Relaxed)
    }

    /// Clears the request. Returns true if there was one. The thread checks afterwards for the change that the request
    /// announced.
    #[inline]
    pub(crate) fn clear(&self) -> bool {
        // Acquire: see `request`. A request that is not seen is not overwritten.
        self.is_requested() && self.requested.swap(false, Ordering::Acquire)
    }
}
