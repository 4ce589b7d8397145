//! What a sleep keeps that waits for a virtual clock.
//!
//! A sleep has no room for more than its timer of the host. While it waits for a virtual clock that timer is idle, and
//! keeps a waker for its next start, as it always may. That waker is a [`Ticket`] in disguise: dropped with the sleep,
//! it takes the timer back from the clock. [`find`] knows the tickets by the address of their wakers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};

use tickless_core::time::Instant;

use super::clock::{Clock, Key};

/// A place in the queue of a clock.
#[derive(Debug)]
pub(crate) struct Ticket {
    clock: Arc<Clock>,
    key: Mutex<Key>,
    /// Of its waker, set once.
    address: OnceLock<usize>,
}

static TICKETS: Mutex<BTreeMap<usize, Weak<Ticket>>> = Mutex::new(BTreeMap::new());

fn tickets() -> MutexGuard<'static, BTreeMap<usize, Weak<Ticket>>> {
    TICKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Arms a timer on `clock`; what is returned takes it back when it is dropped.
pub(crate) fn issue(clock: &Arc<Clock>, deadline: Instant, waker: Waker) -> Waker {
    let ticket = Arc::new(Ticket {
        key: Mutex::new(clock.arm(deadline, waker)),
        clock: Arc::clone(clock),
        address: OnceLock::new(),
    });
    let weak = Arc::downgrade(&ticket);
    let waker = Waker::from(Arc::clone(&ticket));
    let address = waker.data().addr();
    let _first = ticket.address.set(address);
    tickets().insert(address, weak);
    waker
}

/// The ticket that `waker` is.
pub(crate) fn find(waker: &Waker) -> Option<Arc<Ticket>> {
    let tickets = tickets();
    tickets.get(&waker.data().addr())?.upgrade()
}

impl Ticket {
    /// The clock that it waits for.
    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    fn key(&self) -> MutexGuard<'_, Key> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `waker` woken; false if the timer fired.
    pub(crate) fn set_waker(&self, waker: Waker) -> bool {
        let key = *self.key();
        self.clock.set_waker(key, waker).is_ok()
    }

    /// Moves the timer to another deadline, behind all that are armed for that; false if it fired.
    pub(crate) fn reset(&self, deadline: Instant) -> bool {
        let mut key = self.key();
        let Some(waker) = self.clock.cancel(*key) else {
            return false;
        };
        *key = self.clock.arm(deadline, waker);
        true
    }
}

impl Wake for Ticket {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(address) = self.address.get() {
            tickets().remove(address);
        }
        let key = *self.key();
        // Dropped here, with no lock held: it may run foreign code.
        drop(self.clock.cancel(key));
    }
}
