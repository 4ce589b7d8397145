//! The park state of a thread, in one word: it says if the thread sleeps, and if another thread notified it.
//!
//! The classic lost wake-up is a notification between the thread's last look and its going to sleep. Here both are one
//! exchange on the same word: going to sleep succeeds only without a notification, and the thread that leaves one
//! learns from the value that it replaces whether, and how, the thread has to be woken.
//!
//! How it sleeps is the caller's business; the kernel compares the word once more before it puts the thread to sleep.
//! Loom runs this as it is (`model.rs`).

use tickless_link::sync::{AtomicU32, Ordering};

#[cfg(all(test, loom))]
mod model;

/// Manner in which a thread sleeps.
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

/// The word.
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

    /// Resets the state: no thread sleeps here any more.
    pub(crate) fn reset(&self) {
        // Relaxed: called when there is no other thread.
        self.state.store(EMPTY, Ordering::Relaxed);
    }

    /// Returns the word that a kernel compares with the [`Sleep`].
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.state
    }

    /// Takes the notification, if there is one; the thread does not sleep any more.
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

    /// Notes that the thread sleeps; `false` if there is a notification, so that it must not.
    pub(crate) fn enter(&self, sleep: Sleep) -> bool {
        // Acquire on both: see `take`.
        self.state
            .compare_exchange(EMPTY, sleep as u32, Ordering::Acquire, Ordering::Acquire)
            .is_ok()
    }

    /// Returns whether no thread notified it since the thread went to sleep.
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
