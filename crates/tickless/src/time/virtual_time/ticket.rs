//! The ticket of a sleep that waits for a virtual clock.
//!
//! A sleep has no room for more than its timer of the host. While it waits for a virtual clock that timer is idle, and
//! keeps a waker for its next start, as it always may. That waker is a [`Ticket`] in disguise: dropped with the sleep,
//! it takes the timer back from the clock. [`find`] knows the tickets by the address of their wakers.

use std::collections::BTreeMap;
#[cfg(feature = "tokio")]
use std::future::Future;
#[cfg(feature = "tokio")]
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
#[cfg(feature = "tokio")]
use std::task::{Context, Poll};
use std::task::{Wake, Waker};

use tickless_core::time::Instant;

use super::clock::{Clock, Key};
use super::runtime;

/// A place in the queue of a clock.
#[derive(Debug)]
pub(crate) struct Ticket {
    place: TicketUse,
    /// Address of its waker, set once.
    address: OnceLock<usize>,
}

/// Purpose of a ticket.
#[derive(Debug)]
enum TicketUse {
    /// A timer of a virtual clock.
    Own { clock: Arc<Clock>, key: Mutex<Key> },
    /// A sleep of tokio's, under a clock of a tokio runtime.
    #[cfg(feature = "tokio")]
    Tokio(Mutex<Pin<Box<tokio::time::Sleep>>>),
}

static TICKETS: Mutex<BTreeMap<usize, Weak<Ticket>>> = Mutex::new(BTreeMap::new());

fn tickets() -> MutexGuard<'static, BTreeMap<usize, Weak<Ticket>>> {
    lock(&TICKETS)
}

/// Arms a timer on `clock`; what is returned takes it back when it is dropped.
pub(crate) fn issue(clock: &Arc<Clock>, deadline: Instant, waker: Waker) -> Waker {
    issue_for(TicketUse::Own {
        key: Mutex::new(clock.arm(deadline, waker)),
        clock: Arc::clone(clock),
    })
}

/// Arms a sleep of tokio's, in the runtime that polls on this thread; `None` if it is over.
#[cfg(feature = "tokio")]
pub(crate) fn issue_in_tokio(deadline: Instant, waker: &Waker) -> Option<Waker> {
    let mut sleep = Box::pin(tokio::time::sleep_until(of_tokio(deadline)));
    let waits = sleep.as_mut().poll(&mut Context::from_waker(waker));
    waits
        .is_pending()
        .then(|| issue_for(TicketUse::Tokio(Mutex::new(sleep))))
}

/// Converts a deadline for tokio.
#[cfg(feature = "tokio")]
pub(super) fn of_tokio(deadline: Instant) -> tokio::time::Instant {
    tokio::time::Instant::from_std(crate::time::Instant::from_core(deadline).into_std())
}

fn issue_for(place: TicketUse) -> Waker {
    let ticket = Arc::new(Ticket {
        place,
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

/// State of a sleep's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The sleep goes on waiting, for the task that polled last.
    On,
    /// The sleep is over.
    Over,
    /// The sleep waits for nothing: it fired, or belongs to another clock.
    Nowhere,
}

impl Ticket {
    /// Polls the sleep of this ticket, whose deadline is over if `is_over`, for the task of `waker`.
    pub(crate) fn poll(&self, is_over: bool, waker: &Waker) -> Waits {
        match &self.place {
            TicketUse::Own { clock, key } => {
                let runtime = runtime::current();
                let is_here = runtime.is_some_and(|runtime| {
                    runtime.is_virtual() && Arc::ptr_eq(runtime.clock(), clock)
                });
                if !is_here {
                    return Waits::Nowhere;
                }
                if is_over {
                    return Waits::Over;
                }
                let key = *lock(key);
                match clock.set_waker(key, waker.clone()) {
                    Ok(()) => Waits::On,
                    Err(_) => Waits::Nowhere,
                }
            }
            #[cfg(feature = "tokio")]
            TicketUse::Tokio(sleep) => {
                let polled = lock(sleep).as_mut().poll(&mut Context::from_waker(waker));
                match polled {
                    Poll::Pending if !is_over => Waits::On,
                    _ => Waits::Over,
                }
            }
        }
    }

    /// Moves the timer to another deadline, behind all that are armed for that; false if it fired.
    pub(crate) fn reset(&self, deadline: Instant) -> bool {
        match &self.place {
            TicketUse::Own { clock, key } => {
                let mut key = lock(key);
                let Some(waker) = clock.cancel(*key) else {
                    return false;
                };
                *key = clock.arm(deadline, waker);
                true
            }
            #[cfg(feature = "tokio")]
            TicketUse::Tokio(sleep) => {
                let mut sleep = lock(sleep);
                let waits = !sleep.is_elapsed();
                if waits {
                    sleep.as_mut().reset(of_tokio(deadline));
                }
                waits
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for Ticket {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(address) = self.address.get() {
            tickets().remove(address);
        }
        match &self.place {
            TicketUse::Own { clock, key } => {
                let key = *lock(key);
                // Dropped here, with no lock held: it may run foreign code.
                drop(clock.cancel(key));
            }
            #[cfg(feature = "tokio")]
            TicketUse::Tokio(_) => {}
        }
    }
}
