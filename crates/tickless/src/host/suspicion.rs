//! The state of a thread's turn for the watcher of blocked callbacks: whether the turn is to be watched, and whether
//! the watcher knows.
//!
//! The thread says that such a turn begins, and has itself listed unless it is. The watcher takes it off its list when
//! it finds no such turn. In between the next turn may begin, on the strength of the list: then one of them has to
//! notice, or the thread is never looked at again. Both exchange the same word: the second of them sees what the
//! other wrote before.
//!
//! Loom runs this as it is (`model.rs`).

use tickless_link::sync::{AtomicBool, AtomicU64, Ordering};

#[cfg(all(test, loom))]
mod model;

/// Facts that the thread and the watcher know of each other.
#[derive(Debug)]
pub(crate) struct Suspicion {
    /// Odd while a turn lasts that is to be watched; one more with each beginning and end of one.
    turn: AtomicU64,
    /// The watcher has the thread on its list, or will find it there.
    is_listed: AtomicBool,
}

impl Suspicion {
    pub(crate) fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
        }
    }

    /// The turn that lasts and is to be watched.
    pub(crate) fn turn(&self) -> Option<u64> {
        // Relaxed: the thread reads its own word; the watcher compares with a later look, or is ordered by `leave`.
        let turn = self.turn.load(Ordering::Relaxed);
        (turn % 2 == 1).then_some(turn)
    }

    /// The turn that the thread is in is to be watched, and was not so far; `true` if it has to be listed.
    pub(crate) fn begin(&self) -> bool {
        // Relaxed: the exchange below publishes it.
        self.turn.fetch_add(1, Ordering::Relaxed);
        // AcqRel: pairs with the first exchange of `leave`. Behind that one this finds the thread unlisted; before it,
        // the watcher sees the turn.
        !self.is_listed.swap(true, Ordering::AcqRel)
    }

    /// The turn ends.
    pub(crate) fn end(&self) {
        // Relaxed: a watcher that does not see it yet looks once more.
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    /// The watcher takes the thread off its list; `false` if a turn began meanwhile that relies on being listed.
    pub(crate) fn leave(&self) -> bool {
        // AcqRel, both: see `begin`.
        self.is_listed.swap(false, Ordering::AcqRel);
        self.turn().is_none() || self.is_listed.swap(true, Ordering::AcqRel)
    }
}
