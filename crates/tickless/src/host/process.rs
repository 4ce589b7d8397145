//! What a process has one of: the offsets of its clocks, and the count of foreign code that panicked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use super::wall::Wall;

/// Callbacks that a turn runs before it lets the thread do something else.
pub(super) const TURN_BUDGET: u32 = 4096;

/// The host, as the core sees it: `platform` has what it provides.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) wall: Wall,
    panics: AtomicU64,
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            wall: Wall::new(),
            panics: AtomicU64::new(0),
        }
    }

    /// Executes foreign code; `false` if it panicked. The panic hook has reported the panic, which is counted here.
    pub(super) fn guard(&self, foreign: impl FnOnce()) -> bool {
        let result = catch_unwind(AssertUnwindSafe(foreign));
        let Err(payload) = result else { return true };
        // Relaxed: a count.
        self.panics.fetch_add(1, Ordering::Relaxed);
        // The payload is foreign too and may panic when it is dropped.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        if let Err(again) = dropped {
            std::mem::forget(again);
        }
        false
    }

    /// Calls of foreign code that panicked.
    pub(crate) fn panics(&self) -> u64 {
        // Relaxed: a count.
        self.panics.load(Ordering::Relaxed)
    }
}
