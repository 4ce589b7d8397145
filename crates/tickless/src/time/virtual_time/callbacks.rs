//! Timers with closures on a virtual clock.
//!
//! The timers wait on a [base](virtual_base), which the runtime of the clock gets when the first of them starts. The
//! timer with the earliest deadline has a place in the queue of the clock, among the sleeps. When the clock fires this
//! place, all timers that are due are called, by deadline and then in the order in which they were started.
//!
//! # Ground rules
//!
//! - The lock of `armed` is held only to read or store the key, because the clock may fire the place at any time while
//!   it runs.
//! - A cancelled timer keeps its place in the queue of the clock until the runtime [settles](Callbacks::settle). The
//!   runtime settles before it lets time pass.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use tickless_core::time::Instant;

use super::clock::{Clock, Key};
use crate::host::thread::ThreadBase;
use crate::host::virtual_base;

/// The timers with callbacks of one runtime.
pub(super) struct Callbacks {
    /// The base of the timers, set by the first start; `None` inside if no base was left.
    base: OnceLock<Option<&'static ThreadBase>>,
    /// The place of the first timer in the queue of the clock.
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

    /// Starts a timer by `start`, on the clock that users of this thread see. Returns `start` if no base is left.
    pub(super) fn start<R, S: FnOnce() -> R>(&self, start: S) -> Result<R, S> {
        match *self.base.get_or_init(virtual_base::take) {
            Some(base) => Ok(virtual_base::visit(base, start)),
            None => Err(start),
        }
    }

    /// Updates the place of the timers in the queue of `clock`; `fires` makes the waker for this place.
    pub(super) fn settle(&self, clock: &Arc<Clock>, fires: impl FnOnce() -> Waker) {
        let Some(base) = self.existing() else { return };
        let due = virtual_base::first_due(base);
        let stands = self.armed().filter(|&key| clock.is_armed(key));
        if stands.map(|(deadline, ..)| deadline) == Some(due) {
            return;
        }
        let new = (!due.is_forever()).then(|| clock.arm(due, fires(), false));
        let old = std::mem::replace(&mut *self.armed(), new);
        drop(old.and_then(|old| clock.cancel(old)));
    }

    /// Returns the exact time at which the first timer is due.
    #[cfg(feature = "tokio")]
    pub(super) fn first_due(&self) -> Instant {
        self.existing()
            .map_or(Instant::FOREVER, virtual_base::first_due)
    }

    /// Calls the timers that are due at `now`, by the clock that users of this thread see.
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
