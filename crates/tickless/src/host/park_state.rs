//! The park state of a thread, in one word: whether the thread sleeps, and whether another thread notified it.
//!
//! The classic lost wake-up is a notification between a thread's last check and its falling asleep. Here the check and
//! the falling asleep are one exchange on the word: a thread falls asleep only if there is no notification. A thread
//! that leaves a notification reads in the value that it replaces whether, and how, the sleeping thread has to be
//! woken.
//!
//! The caller decides how the thread sleeps; the kernel compares the word once more before it puts the thread to sleep.
//! A Loom model runs this code unchanged (`model.rs`).

use tickless_link::sync::{AtomicU32, Ordering};

#[cfg(all(test, loom))]
mod model;

/// The manner in which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Sleep {
    /// The thread sleeps on the word itself.
    Parked = 1,
    /// The thread sleeps on descriptors.
    OnEpoll = 3,
}

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 2;

/// The word that holds the park state.
#[derive(Debug)]
pub(crate) struct ParkState {
    state: AtomicU32,
}

impl ParkState {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
        }
    }

    /// Resets the state: no thread sleeps by this word any more.
    pub(crate) fn reset(&self) {
        // Relaxed: called when there is no other thread.
        self.state.store(EMPTY, Ordering::Relaxed);
    }

    /// Returns the word that the kernel compares with the [`Sleep`].
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.state
    }

    /// Takes the notification. Returns true if there was one. The thread no longer sleeps.
    pub(crate) fn take(&self) -> bool {
        // Acquire: pairs with the Release in `leave`: what was done before the notification was left is seen from here
        // on.
        self.state.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }

    /// Returns whether there is a notification to take.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        // Relaxed: a hint; `take` orders.
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Records that the thread sleeps; `false` if there is a notification, so that the thread must not sleep.
    pub(crate) fn enter(&self, sleep: Sleep) -> bool {
        // Acquire on both: see `take`.
        self.state
            .compare_exchange(EMPTY, sleep as u32, Ordering::Acquire, Ordering::Acquire)
            .is_ok()
    }

    /// Returns whether no thread has notified the thread since it fell asleep.
    pub(crate) fn is_asleep(&self, sleep: Sleep) -> bool {
        // Relaxed: a hint; `take` orders.
        self.state.load(Ordering::Relaxed) == sleep as u32
    }

    /// Leaves a notification. Returns how the thread sleeps, if it has to be woken.
    pub(crate) fn leave(&self) -> Option<Sleep> {
        // Release: pairs with the Acquire in `take`.
        let before = self.state.swap(NOTIFIED, Ordering::Release);
        [Sleep::Parked, Sleep::OnEpoll]
            .into_iter()
            .find(|sleep| *sleep as u32 == before)
    }
}
