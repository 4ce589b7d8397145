//! The deadline class: tasks that get an amount of the CPU in each period, and no more.
//!
//! # The mechanism
//!
//! Each task has a *server* with a [reservation](Reservation): an amount of runtime in each period, to be given before
//! a deadline that counts from the begin of the period (Abeni and Buttazzo, *Integrating Multimedia Applications in
//! Hard Real-Time Systems*, 1998: the constant-bandwidth server). Of the servers that have runtime left, the one with
//! the earliest deadline runs. A server whose runtime is spent is *throttled* until its next period begins. The
//! [admission](DeadlineQueue::admit) keeps the sum of all bandwidths below a limit, so that all reservations can be
//! kept (Liu and Layland, 1973). `docs/scheduler.md` says what waking up and running over do.
//!
//! # The bandwidth timer
//!
//! [`next_replenishment`](DeadlineQueue::next_replenishment) returns the time at which the first throttled server has
//! runtime again, on the queue's own clock, which stops while interrupts run. The host converts this time to an instant
//! of its timers by adding the distance by which the monotonic clock is ahead
//! ([`RunClock::expiry`](crate::load::RunClock::expiry)), and calls [`replenish`](DeadlineQueue::replenish) at that
//! instant. The timer may be early by the duration of the interrupts that come meanwhile. Then nothing is replenished,
//! and the host starts the timer again.
//!
//! # Ground rules
//!
//! The rules are those of [the fair queue](crate::fair): the queue is plain data under its holder's lock, reads no
//! clock and allocates nothing, and the running task belongs to no queue. Each operation is O(log n).
//!
//! ```
//! use std::pin::pin;
//! use tickless_core::time::Span;
//! use tickless_sched::RunTime;
//! use tickless_sched::deadline::{Bandwidth, DeadlineQueue, Reservation};
//!
//! let at = |millis: u64| RunTime::from_nanos(millis * 1_000_000);
//! let mut queue = DeadlineQueue::new(Bandwidth::percent(95));
//! let reservation = Reservation::new(Span::from_millis(2), Span::from_millis(10), Span::from_millis(10))?;
//! let server = pin!(queue.admit(reservation)?);
//!
//! queue.enqueue(server.as_ref(), "control", at(0)).expect("not queued yet");
//! assert_eq!(queue.pick(at(0)), Some("control"));
//! assert_eq!(queue.account(at(1)).left().span(), Span::from_millis(1));
//! // It runs on for longer than it has, and has to wait for the next period.
//! assert!(queue.account(at(2)).is_due());
//! queue.enqueue(server.as_ref(), "control", at(2)).expect("it ran");
//! assert_eq!(queue.pick(at(2)), None);
//! assert_eq!(queue.next_replenishment(), Some(at(10)));
//! assert_eq!(queue.replenish(at(10)), 1);
//! assert_eq!(queue.pick(at(10)), Some("control"));
//! queue.retire(at(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use core::pin::Pin;

use tickless_core::time::Span;
use tickless_link::id::Realm;
use tickless_link::tree::Tree;

use crate::amount::RunTime;
use crate::membership::{Pick, Refusal, Refused};

mod reservation;
mod server;
#[cfg(all(test, not(loom)))]
mod tests;

pub use reservation::{Bandwidth, Rejected, Reservation, ReservationError};
pub use server::Server;
use server::{Budget, Served};

/// The runtime that the running server has left, as just accounted.
///
/// Only [`DeadlineQueue::account`] makes one, so it is never the runtime at the time of the pick (TICK-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeLeft(Span);

impl RuntimeLeft {
    /// Returns the runtime; zero if it is spent.
    #[must_use]
    pub const fn span(self) -> Span {
        self.0
    }
}

/// The result of accounting the running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Account {
    left: RuntimeLeft,
    is_due: bool,
}

impl Account {
    /// Returns true if another task should run: the runtime is spent, or an earlier deadline waits.
    #[must_use]
    pub const fn is_due(self) -> bool {
        self.is_due
    }

    /// Returns the runtime that is left.
    #[must_use]
    pub const fn left(self) -> RuntimeLeft {
        self.left
    }
}

/// The result of enqueuing a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// True if the server should run in place of the running one, or if none runs.
    pub preempts: bool,
    /// True if the server has no runtime left and waits for its next period.
    pub is_throttled: bool,
}

#[derive(Clone, Debug)]
struct Current {
    budget: Budget,
    pick: Pick,
}

/// A queue of deadline servers.
///
/// See the [module documentation](self).
pub struct DeadlineQueue<T: Send + 'static> {
    /// Servers with runtime, by deadline.
    ready: Tree<Served<T>>,
    /// Servers without runtime, by the begin of their next period.
    throttled: Tree<Served<T>>,
    current: Option<Current>,
    accounted: RunTime,
    picks: u64,
    limit: Bandwidth,
    admitted: Bandwidth,
}

impl<T: Send + 'static> DeadlineQueue<T> {
    /// Makes an empty queue whose servers may have a bandwidth of `limit` together.
    #[must_use]
    pub fn new(limit: Bandwidth) -> Self {
        let [ready, throttled] = Realm::new().keys();
        Self {
            ready: Tree::new(ready),
            throttled: Tree::new(throttled),
            current: None,
            accounted: RunTime::ZERO,
            picks: 0,
            limit,
            admitted: Bandwidth::NONE,
        }
    }

    /// Makes a server, if the bandwidth of all servers stays within the limit.
    ///
    /// # Errors
    ///
    /// When the bandwidth would exceed the limit. The same reservation may be admitted later, after a
    /// [`dismiss`](Self::dismiss).
    pub fn admit(&mut self, reservation: Reservation) -> Result<Server<T>, Rejected> {
        let asked = reservation.bandwidth();
        let together = self.admitted.plus(asked);
        if together > self.limit {
            return Err(Rejected {
                asked,
                admitted: self.admitted,
                limit: self.limit,
            });
        }
        self.admitted = together;
        Ok(Server::new(reservation, self.throttled.id()))
    }

    /// Releases the bandwidth of a server that this queue admitted. The server can be freed, and cannot be enqueued
    /// again.
    ///
    /// # Errors
    ///
    /// While the server is in a queue, and when this queue did not admit the server or dismissed it before.
    pub fn dismiss(&mut self, server: Pin<&Server<T>>) -> Result<(), Refusal> {
        let Some(mut slot) = self.ready.adopt(server.linked().erase()) else {
            return Err(Refusal::Elsewhere);
        };
        let id = self.throttled.id();
        let was_admitted = slot.head().admitted.take_if(|queue| *queue == id).is_some();
        slot.let_go();
        if !was_admitted {
            return Err(Refusal::NotAdmitted);
        }
        self.admitted = self.admitted.minus(server.reservation().bandwidth());
        Ok(())
    }

    /// Returns the sum of the bandwidths that were admitted.
    #[must_use]
    pub const fn admitted(&self) -> Bandwidth {
        self.admitted
    }

    /// Returns the number of servers that could run: the waiting ones, and the running one.
    #[must_use]
    pub fn runnable(&self) -> usize {
        self.ready.len() + usize::from(self.current.is_some())
    }

    /// Returns the number of servers that have runtime and wait for their turn.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of servers that wait for their next period.
    #[must_use]
    pub const fn throttled(&self) -> usize {
        self.throttled.len()
    }

    /// Enqueues a server that wakes up, or that ran and could go on, with the item that [`pick`](Self::pick) returns
    /// for it.
    ///
    /// # Errors
    ///
    /// When the server is in a queue already, or this queue did not admit it. The error returns the item.
    pub fn enqueue(
        &mut self,
        server: Pin<&Server<T>>,
        item: T,
        now: RunTime,
    ) -> Result<Enqueued, Refused<T>> {
        self.charge(now);
        let entry = server.linked();
        for tree in [&mut self.ready, &mut self.throttled] {
            if tree.open(entry.erase()).is_some() {
                let why = Refusal::Queued;
                return Err(Refused { item, why });
            }
        }
        let Some(mut slot) = self.ready.adopt(entry.erase()) else {
            let why = Refusal::Elsewhere;
            return Err(Refused { item, why });
        };
        let head = slot.head();
        if head.admitted != Some(self.throttled.id()) {
            slot.let_go();
            let why = Refusal::NotAdmitted;
            return Err(Refused { item, why });
        }
        match self
            .current
            .take_if(|current| head.pick == Some(current.pick))
        {
            Some(ran) => head.budget = ran.budget,
            None => head.budget.wake(now),
        }
        let budget = head.budget;
        let throttled_until = budget.throttled_until();
        match throttled_until {
            None => {
                slot.insert(budget.deadline);
                if let Some(place) = entry.guarded(&mut self.ready) {
                    *place = Some(item);
                }
            }
            Some(until) => {
                slot.let_go();
                let Some(mut slot) = self.throttled.adopt(entry.erase()) else {
                    let why = Refusal::Elsewhere;
                    return Err(Refused { item, why });
                };
                slot.insert(until);
                if let Some(place) = entry.guarded(&mut self.throttled) {
                    *place = Some(item);
                }
            }
        }
        let is_throttled = throttled_until.is_some();
        let is_earlier = self
            .current
            .as_ref()
            .is_none_or(|current| budget.deadline < current.budget.deadline);
        Ok(Enqueued {
            preempts: !is_throttled && is_earlier,
            is_throttled,
        })
    }

    /// Removes the server with the earliest deadline, and returns its item. The server belongs to no queue while it
    /// runs. Returns `None` if no server has runtime left.
    ///
    /// A server that ran before, and was neither enqueued again nor put to sleep, [has finished](Self::retire).
    pub fn pick(&mut self, now: RunTime) -> Option<T> {
        self.retire(now);
        loop {
            let pick = Pick::behind(self.ready.id(), self.picks);
            let mut slot = self.ready.open_first()?;
            let head = slot.head();
            head.pick = Some(pick);
            let budget = head.budget;
            if let Some(item) = slot.release_expired() {
                self.picks += 1;
                self.current = Some(Current { budget, pick });
                return Some(item);
            }
        }
    }

    /// Charges the running server for the time until `now`. Returns the runtime that it has left, and whether another
    /// task should run. If no server runs, none is left and nothing is due.
    pub fn account(&mut self, now: RunTime) -> Account {
        self.charge(now);
        let Some(Current { budget, .. }) = &self.current else {
            return Account {
                left: RuntimeLeft(Span::ZERO),
                is_due: false,
            };
        };
        let left = RuntimeLeft(budget.left());
        let is_earlier = self
            .ready
            .first_key()
            .is_some_and(|first| first < budget.deadline);
        Account {
            left,
            is_due: left.span().is_zero() || is_earlier,
        }
    }

    /// Notes that the running server has nothing to do.
    ///
    /// # Errors
    ///
    /// When `server` is not the running server. Nothing changes then.
    pub fn sleep(&mut self, server: Pin<&Server<T>>, now: RunTime) -> Result<(), Refusal> {
        self.charge(now);
        let Some(mut slot) = self.ready.adopt(server.linked().erase()) else {
            return Err(Refusal::Elsewhere);
        };
        let head = slot.head();
        let ran = self
            .current
            .take_if(|current| head.pick == Some(current.pick));
        if let Some(ran) = &ran {
            head.budget = ran.budget;
        }
        slot.let_go();
        ran.map(drop).ok_or(Refusal::Elsewhere)
    }

    /// Notes that the task of the running server has finished; has no effect if no server runs.
    pub fn retire(&mut self, now: RunTime) {
        self.charge(now);
        self.current = None;
    }

    /// Removes a waiting server; returns `None` if the server does not wait in this queue.
    pub fn dequeue(&mut self, server: Pin<&Server<T>>, now: RunTime) -> Option<T> {
        self.charge(now);
        let entry = server.linked().erase();
        for tree in [&mut self.ready, &mut self.throttled] {
            if let Some(slot) = tree.open(entry) {
                return slot.release_expired();
            }
        }
        None
    }

    /// Returns true if a server waits for its next period here.
    pub fn is_throttled(&mut self, server: Pin<&Server<T>>) -> bool {
        self.throttled.open(server.linked().erase()).is_some()
    }

    /// Returns the time at which the first throttled server has runtime again, on the clock of the queue.
    #[must_use]
    pub fn next_replenishment(&self) -> Option<RunTime> {
        self.throttled.first_key()
    }

    /// Refills the runtime of the servers whose next period has begun, and returns their number.
    pub fn replenish(&mut self, now: RunTime) -> usize {
        let mut count = 0;
        while self.throttled.first_key().is_some_and(|first| first <= now) {
            let Some(mut slot) = self.throttled.open_first() else {
                break;
            };
            slot.head().budget.replenish(now);
            let deadline = slot.head().budget.deadline;
            self.ready.admit(slot.depart(), deadline, |_| ());
            count += 1;
        }
        count
    }

    fn charge(&mut self, now: RunTime) {
        let served = now.saturating_since(self.accounted);
        self.accounted = self.accounted.max(now);
        if let Some(current) = &mut self.current {
            current.budget.charge(served);
        }
    }
}

impl<T: Send + 'static> Drop for DeadlineQueue<T> {
    fn drop(&mut self) {
        // As in the fair queue: what is handed out and the server may keep each other alive.
        for tree in [&mut self.ready, &mut self.throttled] {
            while let Some(slot) = tree.open_first() {
                drop(slot.release_expired());
            }
        }
    }
}

impl<T: Send + 'static> fmt::Debug for DeadlineQueue<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DeadlineQueue")
            .field("ready", &self.ready.len())
            .field("throttled", &self.throttled.len())
            .field("current", &self.current)
            .field("admitted", &self.admitted)
            .finish_non_exhaustive()
    }
}
