//! The ticket of a sleep that waits for a virtual clock.
//!
//! A sleep has only the memory of its timer of the host. While the sleep waits for a virtual clock, this timer is idle
//! and keeps a waker for its next start, as an idle timer always may. This waker is a [`Ticket`]: when it is dropped
//! with the sleep, it cancels the timer on the virtual clock. [`find`] recognises a ticket by the address of its waker.

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

use super::clock::{self, Clock, Key};
use super::runtime;

/// A waker that owns a timer in the queue of a virtual clock.
#[derive(Debug)]
pub(crate) struct Ticket {
    place: TicketUse,
    /// The address of the ticket's waker, set once.
    address: OnceLock<usize>,
}

/// The timer that a ticket owns.
#[derive(Debug)]
enum TicketUse {
    /// A timer of a virtual clock.
    Own { clock: Arc<Clock>, key: Mutex<Key> },
    /// A sleep of tokio, on the clock of a tokio runtime.
    #[cfg(feature = "tokio")]
    Tokio(Mutex<Substitute>),
}

/// A sleep of tokio that waits in place of a sleep of this library.
#[cfg(feature = "tokio")]
#[derive(Debug)]
struct Substitute {
    sleep: Pin<Box<tokio::time::Sleep>>,
    /// The deadline of the sleep of this library.
    deadline: Instant,
    runtime: Option<Id>,
    /// A time that the clock of the tokio runtime showed.
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

    /// Moves the sleep to `deadline`, converted for the ticks of this runtime's clock. The clock of another runtime may
    /// be stopped between other ticks.
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

/// Arms a timer on `clock`, as [`Clock::arm`] does; the returned waker cancels the timer when it is dropped.
pub(crate) fn issue(
    clock: &Arc<Clock>,
    deadline: Instant,
    waker: Waker,
    is_of_wall: bool,
) -> Waker {
    issue_for(TicketUse::Own {
        key: Mutex::new(clock.arm(deadline, waker, is_of_wall)),
        clock: Arc::clone(clock),
    })
}

/// Arms a sleep of tokio in the runtime that polls on this thread; returns `None` if the deadline is over.
#[cfg(feature = "tokio")]
pub(crate) fn issue_in_tokio(deadline: Instant, waker: &Waker) -> Option<Waker> {
    let mut substitute = Substitute::new(deadline);
    let polled = { substitute.sleep.as_mut() }.poll(&mut Context::from_waker(waker));
    polled
        .is_pending()
        .then(|| issue_for(TicketUse::Tokio(Mutex::new(substitute))))
}

/// Converts a deadline to a deadline that tokio's wheel of milliseconds does not round up, if tokio's stopped clock
/// reaches it in whole milliseconds.
///
/// tokio rounds a deadline up to a tick of the runtime, and rounds the time that passed down. A clock that was stopped
/// between two ticks moves in whole milliseconds, and stays between two ticks: a sleep of 1 ms would take 2 ms there.
/// The returned deadline is in the tick in which the whole milliseconds from `now` to the deadline are over.
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

/// Returns the ticket that owns `waker`, if `waker` belongs to a ticket.
pub(crate) fn find(waker: &Waker) -> Option<Arc<Ticket>> {
    let tickets = tickets();
    tickets.get(&waker.data().addr())?.upgrade()
}

/// The state of a sleep that has a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The sleep continues to wait, for the task that polled last.
    On,
    /// The sleep is over.
    Over,
    /// The sleep is not armed: it fired, or belongs to another clock.
    Nowhere,
}

impl Ticket {
    /// Polls the sleep of this ticket for the task of `waker`; `is_over` says that its deadline is over.
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
                let mut substitute = lock(substitute);
                if this_runtime() != substitute.runtime {
                    // Its runtime may be gone, where a poll of tokio's sleep panics.
                    return Waits::Nowhere;
                }
                if is_over {
                    return Waits::Over;
                }
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

    /// Moves the timer to another deadline, after all timers that are armed for this deadline; returns false if the
    /// timer fired. If the new deadline has passed, the task is woken at once.
    pub(crate) fn reset(&self, deadline: Instant) -> bool {
        match &self.place {
            TicketUse::Own { clock, key } => {
                let mut key = lock(key);
                let Some(waker) = clock.cancel(*key) else {
                    return false;
                };
                if deadline > clock.now() {
                    *key = clock.arm(deadline, waker, false);
                    return true;
                }
                // With no lock held: it may run foreign code.
                drop(key);
                clock::wake(waker);
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
