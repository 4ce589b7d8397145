//! A request to a thread that its running task gives way: one flag.
//!
//! Any thread sets it, and so does the handler of a signal; the thread that it belongs to reads it at its checkpoints
//! and takes it back when it schedules. It is a hint: what it stands for (a task that was queued, a timer that is due)
//! is found in the queues, under their locks. A request that comes between the taking back and the look at the queues
//! is seen in the look, and costs one look for nothing afterwards.

use std::sync::atomic::{AtomicBool, Ordering};

/// The flag.
#[derive(Debug)]
pub(crate) struct Resched {
    requested: AtomicBool,
    /// The tick of the worker fired.
    ticked: AtomicBool,
}

impl Resched {
    pub(crate) const fn new() -> Self {
        Self {
            requested: AtomicBool::new(false),
            ticked: AtomicBool::new(false),
        }
    }

    /// Asks. Safe in a signal handler.
    #[inline]
    pub(crate) fn request(&self) {
        // Relaxed: a hint, see the module.
        self.requested.store(true, Ordering::Relaxed);
    }

    /// The tick of the worker fired, which asks too.
    pub(crate) fn tick(&self) {
        // Relaxed: written and taken by the worker's own thread.
        self.ticked.store(true, Ordering::Relaxed);
        self.request();
    }

    /// Whether the tick fired since this was asked last.
    pub(crate) fn take_tick(&self) -> bool {
        // Relaxed, both: see `tick`.
        let ticked = self.ticked.load(Ordering::Relaxed);
        self.ticked.store(false, Ordering::Relaxed);
        ticked
    }

    /// Whether there is a request.
    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        // Relaxed: see `request`.
        self.requested.load(Ordering::Relaxed)
    }

    /// Takes the request back. The thread looks at its queues afterwards, taking their locks.
    #[inline]
    pub(crate) fn clear(&self) {
        // Relaxed: see `request`.
        self.requested.store(false, Ordering::Relaxed);
    }
}
