//! The state that a thread shares with the watcher of blocked callbacks: a mark that its turn has to be watched, and a
//! flag that the thread is on the watcher's list.
//!
//! The thread marks a turn that has to be watched ([`begin`](Suspicion::begin)), and is put on the list unless it is
//! listed already. The watcher removes the thread from the list ([`leave`](Suspicion::leave)) when it finds no marked
//! turn. Meanwhile the next turn may begin and rely on the listing. Then the thread or the watcher must notice this, or
//! the watcher never checks the thread again. So both exchange the word `is_listed`, and the later of the two sees the
//! writes that the other made before its exchange.
//!
//! A Loom model runs this code unchanged (`model.rs`).

use tickless_link::sync::{AtomicBool, AtomicU64, Ordering};

#[cfg(all(test, loom))]
mod model;

/// The state that the thread and the watcher share.
#[derive(Debug)]
pub(crate) struct Suspicion {
    /// The number of begins and ends of watched turns; odd during a watched turn. The thread adds one at the begin and
    /// at the end of each.
    turn: AtomicU64,
    /// True if the watcher has the thread on its list, or will find the thread in the list of new suspects.
    is_listed: AtomicBool,
}

impl Suspicion {
    pub(crate) fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Returns the number of the current turn, if the turn has to be watched.
    pub(crate) fn turn(&self) -> Option<u64> {
        // Relaxed: the thread reads its own word; the watcher compares with a later look, or is ordered by `leave`.
        let turn = self.turn.load(Ordering::Relaxed);
        (turn % 2 == 1).then_some(turn)
    }

    /// Marks the thread's current turn, which was not marked before, as a turn that has to be watched. Returns true if
    /// the thread has to be listed.
    pub(crate) fn begin(&self) -> bool {
        // Relaxed: the exchange below publishes it.
        self.turn.fetch_add(1, Ordering::Relaxed);
        // AcqRel: pairs with the first exchange of `leave`. After that one this finds the thread unlisted; before it,
        // the watcher sees the turn.
        !self.is_listed.swap(true, Ordering::AcqRel)
    }

    /// Marks the end of the watched turn.
    pub(crate) fn end(&self) {
        // Relaxed: a watcher that does not see it yet looks once more.
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes the thread from the watcher's list. Returns false if a turn began meanwhile that relies on the listing.
    pub(crate) fn leave(&self) -> bool {
        // AcqRel, both: see `begin`.
        self.is_listed.swap(false, Ordering::AcqRel);
        self.turn().is_none() || self.is_listed.swap(true, Ordering::AcqRel)
    }
}
