//! The handshake between the thread that notifies of an expiration and `settime`, which replaces the notification.
//!
//! The thread publishes the slot for which it is about to notify, and then reads the version of the slot's record
//! again. `settime` replaces the record, and then waits until the slot is not published. Each side has a sequentially
//! consistent fence between its two steps, so at least one side sees the other: the thread sees a new version, or
//! `settime` sees the slot. After a `settime` has returned, no notification of the former record is sent.
//!
//! The case of the same name in `model.rs` fails if either fence or the wait is removed.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The word of the handshake; the module documents it.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The lower half holds the slot of the current notification plus one, or zero for no slot. The upper half holds a
    /// count.
    delivering: AtomicU64,
}

/// The mask of the lower half, which holds the slot.
const SLOT: u64 = 0xffff_ffff;

impl Handshake {
    pub(crate) fn new() -> Self {
        Self {
            delivering: AtomicU64::new(0),
        }
    }

    /// Calls `notify` while the slot is published. `notify` first reads the version of the slot's record. Only one
    /// thread calls this function.
    pub(crate) fn deliver<R>(&self, index: u32, notify: impl FnOnce() -> R) -> R {
        // Relaxed: this thread alone writes it.
        let count = self.delivering.load(Ordering::Relaxed) >> 32;
        // Relaxed: ordered by the fence.
        self.delivering
            .store((count << 32) | (u64::from(index) + 1), Ordering::Relaxed);
        // Sequentially consistent: pairs with the fence of `settle`.
        fence(Ordering::SeqCst);
        let notified = notify();
        // Release: pairs with `settle`, which sees what was sent.
        self.delivering
            .store(((count + 1) & SLOT) << 32, Ordering::Release);
        notified
    }

    /// Waits until the publication of the slot that exists at the time of the call has ended. The caller has replaced
    /// the record of the slot. `pause` gets the number of its previous calls.
    pub(crate) fn settle(&self, index: u32, mut pause: impl FnMut(u32)) {
        // Sequentially consistent: pairs with the fence of `deliver`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the end of the delivery.
        let seen = self.delivering.load(Ordering::Acquire);
        if seen & SLOT != u64::from(index) + 1 {
            return;
        }
        let mut looks = 0_u32;
        // Acquire: as above.
        while self.delivering.load(Ordering::Acquire) == seen {
            looks = looks.saturating_add(1);
            pause(looks);
        }
    }
}
