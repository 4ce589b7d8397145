//! Timers with closures on a virtual clock.
//!
//! They wait on a [base](virtual_base) that the runtime of the clock has for them from the first one on. The first of
//! them has a place in the queue of the clock, among the sleeps; when its turn comes, all that are due then are called,
//! by deadline and then in the order in which they were started.
//!
//! # Ground rules
//!
//! - The lock of `armed` is held for a look and a store alone: the clock may fire what is armed while it runs.
//! - A cancelled timer keeps its place in the queue of the clock until the runtime [settles](Callbacks::settle). It
//!   does so before it lets time pass.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use tickless_core::time::Instant;

use super::clock::{Clock, Key};
use crate::host::thread::ThreadBase;
use crate::host::virtual_base;

/// The timers with callbacks of one runtime.
pub(super) struct Callbacks {
    /// `None` inside if there was none left.
    base: OnceLock<Option<&'static ThreadBase>>,
    /// Place of the first of them in the queue of the clock.
    armed: Mutex<Option<Key>>,
}

impl Callbacks {
    pub(super) const fn new() -> Self {
        Self {
            base: OnceLock::new(),
            armed: Mutex::new(None),
        }
    }

    fn armed(&self) -> MutexGuard<'_, Option<Key>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn existing(&self) -> Option<&'static ThreadBase> {
        self.base.get().copied().flatten()
    }

    /// Starts a timer by `start`, on the clock that users of this thread see. Hands `start` back if no base is left.
    pub(super) fn start<R, S: FnOnce() -> R>(&self, start: S) -> Result<R, S> {
        match *self.base.get_or_init(virtual_base::take) {
            Some(base) => Ok(virtual_base::visit(base, start)),
            None => Err(start),
        }
    }

    /// Brings the place in the queue of `clock` up to date, for which `fires` makes the waker.
    pub(super) fn settle(&self, clock: &Arc<Clock>, fires: impl FnOnce() -> Waker) {
        let Some(base) = self.existing() else { return };
        let due = virtual_base::first_due(base);
        let stands = self.armed().filter(|&key| clock.is_armed(key));
        if stands.map(|(deadline, ..)| deadline) == Some(due) {
            return;
        }
        let new = (!due.is_forever()).then(|| clock.arm(due, fires()));
        let old = std::mem::replace(&mut *self.armed(), new);
        drop(old.and_then(|old| clock.cancel(old)));
    }

    /// Returns the time at which the first of them is due, exactly.
    #[cfg(feature = "tokio")]
    pub(super) fn first_due(&self) -> Instant {
        self.existing()
            .map_or(Instant::FOREVER, virtual_base::first_due)
    }

    /// Calls what is due at `now`, by the clock that users of this thread see.
    pub(super) fn turn(&self, now: Instant) {
        if let Some(base) = self.existing() {
            // What is left over is due still, and so is the next in the queue of the clock.
            let _done = virtual_base::turn(base, now);
        }
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        if let Some(base) = self.existing() {
            virtual_base::give_back(base);
        }
    }
}
