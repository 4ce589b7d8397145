//! The state of the whole process: the offsets of its clocks, and the count of foreign code that panicked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::wall::Wall;

/// The number of callbacks that a turn runs before the thread may do other work.
pub(super) const TURN_BUDGET: u32 = 4096;

/// The number of forks from the first process that used the library to this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of this process in the chain from the first process to its children.
#[inline]
pub(crate) fn forks() -> u32 {
    // Relaxed: written while there is one thread.
    FORKS.load(Ordering::Relaxed)
}

/// Counts a fork, in the child.
pub(super) fn count_fork() {
    // Relaxed: there is one thread.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The host as the core sees it; `platform` implements its services.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) wall: Wall,
    panics: AtomicU64,
    /// True if timers stay on the thread that starts them, whatever the settings of isolated workers are.
    keeps_timers: AtomicBool,
    /// True while each exact timer counts by how much it was late.
    counts_lateness: AtomicBool,
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            wall: Wall::new(),
            panics: AtomicU64::new(0),
            keeps_timers: AtomicBool::new(false),
            counts_lateness: AtomicBool::new(false),
        }
    }

    /// Executes foreign code; `false` if it panicked. The panic hook has reported the panic; this function counts it.
    pub(crate) fn guard(&self, foreign: impl FnOnce()) -> bool {
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

    /// Returns whether timers that an isolated worker starts may move to another worker.
    #[inline]
    pub(crate) fn migration(&self) -> bool {
        // Relaxed: either answer is right at any time, wherever a timer goes it is found.
        !self.keeps_timers.load(Ordering::Relaxed)
    }

    /// Sets whether timers that an isolated worker starts may move to another worker.
    pub(crate) fn set_migration(&self, enabled: bool) {
        // Relaxed: see `migration`.
        self.keeps_timers.store(!enabled, Ordering::Relaxed);
    }

    /// Returns whether each exact timer counts by how much it was late.
    #[inline]
    pub(crate) fn counts_lateness(&self) -> bool {
        // Relaxed: a switch for counts; a turn that reads the old value counts as before.
        self.counts_lateness.load(Ordering::Relaxed)
    }

    /// Sets whether each exact timer counts by how much it was late.
    pub(crate) fn set_counts_lateness(&self, enabled: bool) {
        // Relaxed: see `counts_lateness`.
        self.counts_lateness.store(enabled, Ordering::Relaxed);
    }

    /// Returns the number of calls of foreign code that panicked.
    pub(crate) fn panics(&self) -> u64 {
        // Relaxed: a count.
        self.panics.load(Ordering::Relaxed)
    }
}
