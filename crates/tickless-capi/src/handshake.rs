//! The handshake between notifications of a POSIX timer and `settime`, which replaces the record that they are for.
//!
//! A thread that is about to notify sets a flag and then reads the record. `settime` replaces the record and then reads
//! the flag. Each side has a sequentially consistent fence between its two steps, so at least one side sees the other:
//! the thread sees the new record, or `settime` sees the flag and enters the handshake itself, after the thread. After
//! a `settime` has returned, no notification of the former record is sent. Without the flag, `settime` does not have to
//! enter: this would need a lock, and signals blocked.
//!
//! The case of the same name in `model.rs` fails if either fence or the entering is removed.

#[cfg(loom)]
use loom::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering, fence},
};
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering, fence},
};

#[cfg(all(test, loom))]
mod model;

/// The handshake of a timer, with the state of its notifications; the module documents it.
#[derive(Debug)]
pub(crate) struct Handshake<T> {
    /// True while a notification of a replaced record may be sent.
    may_notify: AtomicBool,
    state: Mutex<T>,
}

impl<T> Handshake<T> {
    pub(crate) fn new(state: T) -> Self {
        Self {
            may_notify: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Calls `call`, which reads the record, with the state. Calls come one after another. The second result of `call`
    /// is true if a notification may be sent later without another call. The caller blocks all signals, because a
    /// handler would wait for ever for the call that it interrupted.
    pub(crate) fn enter<R>(&self, call: impl FnOnce(&mut T) -> (R, bool)) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: ordered by the fence.
        self.may_notify.store(true, Ordering::Relaxed);
        // Sequentially consistent: pairs with the fence of `may_notify`.
        fence(Ordering::SeqCst);
        let (result, may_notify) = call(&mut state);
        // Release: pairs with the load of `may_notify`, which sees what was sent.
        self.may_notify.store(may_notify, Ordering::Release);
        result
    }

    /// Returns true if a notification of the record that the caller has replaced may be sent. The caller then enters.
    pub(crate) fn may_notify(&self) -> bool {
        // Sequentially consistent: pairs with the fence of `enter`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the end of `enter`.
        self.may_notify.load(Ordering::Acquire)
    }
}
