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
use std::task::Context;
use std::task::{Wake, Waker};
#[cfg(feature = "tokio")]
use std::time::Duration;

use tickless_core::time::Instant;
#[cfg(feature = "tokio")]
use tokio::runtime::{Handle, Id};

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
    Tokio(Mutex<Substitute>),
}

/// A sleep of tokio's in the place of one of this library.
#[cfg(feature = "tokio")]
#[derive(Debug)]
struct Substitute {
    sleep: Pin<Box<tokio::time::Sleep>>,
    /// The deadline of the sleep in whose place it is.
    deadline: Instant,
    runtime: Option<Id>,
    /// A time that the clock of its runtime showed.
    shown: tokio::time::Instant,
}

#[cfg(feature = "tokio")]
impl Substitute {
    fn new(deadline: Instant) -> Self {
        let shown = tokio::time::Instant::now();
        Self {
            sleep: Box::pin(tokio::time::sleep_until(in_ticks(deadline, shown))),
            deadline,
            runtime: this_runtime(),
            shown,
        }
    }

    /// Moves it to `deadline`, as a clock goes on that shows what this runtime's shows now. Another runtime's clock may
    /// stand between other ticks.
    fn reset(&mut self, deadline: Instant) {
        if this_runtime() == self.runtime {
            self.shown = tokio::time::Instant::now();
        }
        self.deadline = deadline;
        self.sleep.as_mut().reset(in_ticks(deadline, self.shown));
    }
}

#[cfg(feature = "tokio")]
fn this_runtime() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
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
    let mut substitute = Substitute::new(deadline);
    let polled = { substitute.sleep.as_mut() }.poll(&mut Context::from_waker(waker));
    polled
        .is_pending()
        .then(|| issue_for(TicketUse::Tokio(Mutex::new(substitute))))
}

/// Converts a deadline to one that tokio's wheel of milliseconds keeps without rounding it up, where its stopped clock
/// comes there in whole milliseconds.
///
/// tokio rounds a deadline up to a tick of the runtime, and the time that passed down. A clock that was stopped between
/// two ticks goes on in whole milliseconds, and stays between two ticks: a sleep of 1 ms would take 2 ms there. The
/// deadline returned is in the tick in which so many whole milliseconds from `now` are over.
#[cfg(feature = "tokio")]
fn in_ticks(deadline: Instant, now: tokio::time::Instant) -> tokio::time::Instant {
    const TICK: u128 = 1_000_000;
    let deadline = of_tokio(deadline);
    if deadline <= now {
        // In a tick that is over, so that a reset wakes at once.
        return now
            .checked_sub(Duration::from_millis(1))
            .unwrap_or(deadline);
    }
    let whole = deadline.duration_since(now).as_nanos().div_ceil(TICK) * TICK;
    let Ok(before) = u64::try_from(whole.saturating_sub(TICK - 1)) else {
        return deadline;
    };
    now.checked_add(Duration::from_nanos(before))
        .unwrap_or(deadline)
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
            TicketUse::Tokio(substitute) => {
                if is_over {
                    return Waits::Over;
                }
                let mut substitute = lock(substitute);
                let mut context = Context::from_waker(waker);
                if substitute.sleep.as_mut().poll(&mut context).is_ready() {
                    // The clock was advanced by a part of a millisecond meanwhile: the deadline is in a later tick.
                    let deadline = substitute.deadline;
                    substitute.reset(deadline);
                    if substitute.sleep.as_mut().poll(&mut context).is_ready() {
                        return Waits::Over;
                    }
                }
                Waits::On
            }
        }
    }

    /// Moves the timer to another deadline, behind all that are armed for that; false if it fired. Where that passed
    /// already, the task is woken at once.
    pub(crate) fn reset(&self, deadline: Instant) -> bool {
        match &self.place {
            TicketUse::Own { clock, key } => {
                let mut key = lock(key);
                let Some(waker) = clock.cancel(*key) else {
                    return false;
                };
                if deadline > clock.now() {
                    *key = clock.arm(deadline, waker);
                    return true;
                }
                // With no lock held: it may run foreign code.
                drop(key);
                waker.wake();
                true
            }
            #[cfg(feature = "tokio")]
            TicketUse::Tokio(substitute) => {
                let mut substitute = lock(substitute);
                let waits = !substitute.sleep.is_elapsed();
                if waits {
                    substitute.reset(deadline);
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
