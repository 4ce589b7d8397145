//! The handshake between the thread that notifies of an expiration and `settime`, which replaces the notification.
//!
//! The thread publishes the slot that it is about to notify for, and then reads the version of the slot's record again.
//! `settime` replaces the record, and then waits until that slot is not published. Between the two steps of each stands
//! a sequentially consistent fence, so one of both sees the other: the thread a new version, or `settime` the slot.
//! Behind a `settime` no notification of the former record is sent.
//!
//! The case of the same name in `model.rs` fails without either fence, and without the wait.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The word of the handshake; the module documents it.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The slot that is being notified for, plus one, and above it a count; no slot while the lower half is zero.
    delivering: AtomicU64,
}

/// The lower half, which has the slot.
const SLOT: u64 = 0xffff_ffff;

impl Handshake {
    pub(crate) fn new() -> Self {
        Self {
            delivering: AtomicU64::new(0),
        }
    }

    /// Calls `notify` while the slot is published; that reads the version of the slot's record first. One thread alone
    /// calls this.
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

    /// Waits until the slot is not published as it was when this was called. The caller has replaced its record.
    /// `pause` is told how often it was called.
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
