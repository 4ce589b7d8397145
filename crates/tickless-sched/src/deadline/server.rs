//! A deadline server: its runtime, and the deadline before which the runtime is to be used.

use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;

use tickless_core::time::Span;
use tickless_link::entry::{Branches, Entry, Family};
use tickless_link::id::QueueId;

use super::reservation::Reservation;
use crate::amount::RunTime;
use crate::membership::{Carrier, Pick};

/// The entries of deadline queues that hand out `T`.
pub(super) struct Served<T>(PhantomData<fn() -> T>);

impl<T: Send + 'static> Family for Served<T> {
    type Key = RunTime;
    type Tag = Reservation;
    type Head = Head;
    type Shared = ();
    type Branches = Branches<Self>;
    type Token = Option<T>;
    type Context<'a> = ();
    type Answer = ();
}

/// Data that a queue keeps for a server.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) budget: Budget,
    /// The pick that took the server last.
    pub(super) pick: Option<Pick>,
    /// The queue that admitted the server, until the server is dismissed.
    pub(super) admitted: Option<QueueId>,
}

/// The account of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    reservation: Reservation,
    /// The time by which the runtime should be used.
    pub(super) deadline: RunTime,
    /// Runtime that is left, in nanoseconds; below zero after an overrun.
    left: i64,
}

impl Budget {
    const fn new(reservation: Reservation) -> Self {
        Self {
            reservation,
            deadline: RunTime::ZERO,
            left: 0,
        }
    }

    pub(super) fn left(&self) -> Span {
        Span::from_nanos(u64::try_from(self.left).unwrap_or(0))
    }

    pub(super) fn charge(&mut self, served: Span) {
        let served = i64::try_from(served.as_nanos()).unwrap_or(i64::MAX);
        self.left = self.left.saturating_sub(served);
    }

    /// Wakes the server. A server that has spent its runtime stays throttled until its next replenishment. Remaining
    /// runtime counts only as far as it is within the bandwidth until the deadline. If the deadline is before the end
    /// of the period and has passed, a new period begins if the remaining runtime is more than the bandwidth gives
    /// until the end of the period. Otherwise the server is throttled until that end.
    pub(super) fn wake(&mut self, now: RunTime) {
        if self.deadline == RunTime::ZERO {
            self.begin(now);
            return;
        }
        if self.left <= 0 {
            if self.replenished_at() <= now {
                self.pay(now);
                self.deadline = now.saturating_add(self.reservation.deadline());
            }
            return;
        }
        let (deadline, period) = (self.reservation.deadline(), self.reservation.period());
        if now >= self.deadline && deadline < period {
            // A new period would begin before this one ended, and another deadline is not to be had in this one.
            if self.left > self.given_until(self.replenished_at(), now, period) {
                self.begin(now);
            } else {
                self.left = 0;
            }
            return;
        }
        let most = self.given_until(self.deadline, now, deadline);
        if self.left <= most {
            return;
        }
        if deadline < period {
            // As above.
            self.left = most;
        } else {
            self.begin(now);
        }
    }

    /// Returns the runtime that the server gets from `now` to `end`, with a whole runtime in each `whole`.
    fn given_until(&self, end: RunTime, now: RunTime, whole: Span) -> i64 {
        let time = u128::from(end.saturating_since(now).as_nanos());
        let runtime = u128::from(self.reservation.runtime().as_nanos());
        let given = time * runtime / u128::from(whole.as_nanos());
        i64::try_from(given).unwrap_or(i64::MAX)
    }

    /// Returns the end of the throttling; `None` while there is runtime left.
    pub(super) fn throttled_until(&self) -> Option<RunTime> {
        (self.left <= 0).then(|| self.replenished_at())
    }

    /// Begins the next period in which the server has runtime again.
    pub(super) fn replenish(&mut self, now: RunTime) {
        let periods = self.pay(now);
        let later = self.reservation.period().as_nanos().saturating_mul(periods);
        self.deadline = self.deadline.saturating_add(Span::from_nanos(later));
        if self.deadline <= now {
            // The host comes late.
            self.deadline = now.saturating_add(self.reservation.deadline());
        }
    }

    /// Adds the runtimes of the periods that have begun since the runtime was spent, one period at least. Returns the
    /// number of these periods. Their runtimes pay for an overrun, and no more than one runtime is left.
    fn pay(&mut self, now: RunTime) -> u64 {
        let runtime = self.runtime();
        let over = now.saturating_since(self.replenished_at()).as_nanos();
        let periods = self.missing_periods() + over / self.reservation.period().as_nanos();
        let paid = i64::try_from(periods)
            .unwrap_or(i64::MAX)
            .saturating_mul(runtime);
        self.left = self.left.saturating_add(paid).min(runtime);
        periods
    }

    fn begin(&mut self, now: RunTime) {
        self.left = self.runtime();
        self.deadline = now.saturating_add(self.reservation.deadline());
    }

    fn runtime(&self) -> i64 {
        i64::try_from(self.reservation.runtime().as_nanos()).unwrap_or(i64::MAX)
    }

    /// Returns the begin of the first period in which runtime is left: an overrun is subtracted from the runtimes of
    /// the coming periods.
    fn replenished_at(&self) -> RunTime {
        let period = self.reservation.period().as_nanos();
        let rest = period - self.reservation.deadline().as_nanos();
        let more = period.saturating_mul(self.missing_periods() - 1);
        self.deadline
            .saturating_add(Span::from_nanos(rest.saturating_add(more)))
    }

    /// Returns the number of periods until the server has runtime again; at least one.
    fn missing_periods(&self) -> u64 {
        self.left.min(0).unsigned_abs() / self.runtime().unsigned_abs() + 1
    }
}

/// A deadline server, which a [`DeadlineQueue`](super::DeadlineQueue) links without an allocation.
///
/// Dropping it while a queue has it ends the process. A running server belongs to no queue.
pub struct Server<T: Send + 'static> {
    entry: Entry<Served<T>, Carrier<T>>,
}

tickless_link::project_entry!([T] Server<T> [T: Send + 'static] entry: Entry<Served<T>, Carrier<T>>);

impl<T: Send + 'static> Server<T> {
    pub(super) fn new(reservation: Reservation, queue: QueueId) -> Self {
        let head = Head {
            budget: Budget::new(reservation),
            pick: None,
            admitted: Some(queue),
        };
        Self {
            entry: Entry::new(RunTime::ZERO, reservation, head, (), None, Carrier::new()),
        }
    }

    /// Returns the reservation that was admitted.
    #[must_use]
    pub fn reservation(&self) -> Reservation {
        self.entry.tag()
    }

    /// Returns true if the server is in a queue.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    pub(super) fn linked(self: Pin<&Self>) -> Pin<&Entry<Served<T>, Carrier<T>>> {
        self.entry()
    }
}

impl<T: Send + 'static> fmt::Debug for Server<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("reservation", &self.reservation())
            .field("state", &self.entry.state())
            .finish()
    }
}
