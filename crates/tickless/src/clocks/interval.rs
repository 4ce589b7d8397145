//! Ticks at a fixed rate, on all clocks except the exact monotonic one.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::time::MissedTickBehavior;
use crate::time::interval::{LONGEST, MISSED, MissedTicks};

/// A sleep from which a [`ClockInterval`] is made.
pub trait TickSleep: Future + Sized {
    /// A point on the clock of the sleep.
    type Instant: Copy + fmt::Debug;

    /// Makes a sleep that ends at `deadline`.
    fn ending_at(deadline: Self::Instant) -> Self;

    /// Moves the end of the sleep to `deadline`.
    fn aim_at(self: Pin<&mut Self>, deadline: Self::Instant);

    /// Moves the end of the sleep to `deadline`, without waking a task that has already seen the sleep end.
    fn go_on_at(self: Pin<&mut Self>, deadline: Self::Instant) {
        self.aim_at(deadline);
    }

    /// Reads the clock.
    fn now() -> Self::Instant;

    /// Returns `instant` plus `duration`, or the last point of the clock if the sum is beyond that point.
    fn sum(instant: Self::Instant, duration: Duration) -> Self::Instant;

    /// Returns the time from `earlier` to `later`; zero if `earlier` is later.
    fn distance(later: Self::Instant, earlier: Self::Instant) -> Duration;

    /// Returns the largest lateness that a sleep of `duration` has by design, which is zero unless the sleep is coarse.
    fn lateness(_duration: Duration) -> Duration {
        Duration::ZERO
    }
}

/// Ticks on the clock of the sleep `S`: [`coarse::Interval`](crate::coarse::Interval),
/// [`boottime::Interval`](crate::boottime::Interval) and [`realtime::Interval`](crate::realtime::Interval).
///
/// The next tick is due one period after the tick before was due, and not after the time at which that tick was taken:
/// an interval does not drift. A tick counts as missed when it is taken more than 5 ms late, plus the lateness that the
/// sleep has by design.
///
/// The first poll allocates one sleep, which all later polls use again.
pub struct ClockInterval<S: TickSleep> {
    next: S::Instant,
    period: Duration,
    missed: MissedTickBehavior,
    missed_ticks: MissedTicks,
    // Boxed, because an interval may be moved.
    delay: Option<Pin<Box<S>>>,
}

impl<S: TickSleep> ClockInterval<S> {
    #[track_caller]
    pub(crate) fn new(start: S::Instant, period: Duration) -> Self {
        assert!(period > Duration::ZERO, "`period` must be non-zero.");
        Self {
            next: start,
            period: period.min(LONGEST),
            missed: MissedTickBehavior::default(),
            missed_ticks: MissedTicks::default(),
            delay: None,
        }
    }

    /// Waits for the next tick, and returns the time at which the tick was due.
    ///
    /// # Cancellation
    ///
    /// Cancel safe: dropping the future before it is ready loses no tick.
    pub async fn tick(&mut self) -> S::Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Polls for the next tick; the task of `context` is woken when the tick is due.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<S::Instant> {
        let next = self.next;
        let delay = self
            .delay
            .get_or_insert_with(|| Box::pin(S::ending_at(next)));
        let _ended = ready!(delay.as_mut().poll(context));
        let due = self.advance();
        if let Some(delay) = &mut self.delay {
            delay.as_mut().go_on_at(self.next);
        }
        Poll::Ready(due)
    }

    /// Takes the tick that is due.
    fn advance(&mut self) -> S::Instant {
        let due = self.next;
        let late = S::distance(S::now(), due);
        let is_missed = late > MISSED.saturating_add(S::lateness(self.period));
        let step = if is_missed {
            self.missed.step(late, self.period)
        } else {
            Some(self.period)
        };
        self.next = S::sum(due, step.unwrap_or(Duration::MAX));
        let are_dropped = is_missed && self.missed != MissedTickBehavior::Burst;
        self.missed_ticks.note(late, self.period, are_dropped);
        due
    }

    /// Moves the next tick to one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Makes the next tick due at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(S::now());
    }

    /// Moves the next tick to `after` from now.
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(S::sum(S::now(), after));
    }

    /// Moves the next tick to `deadline`.
    pub fn reset_at(&mut self, deadline: S::Instant) {
        self.next = deadline;
        self.missed_ticks.reset();
        if let Some(delay) = &mut self.delay {
            delay.as_mut().aim_at(deadline);
        }
    }

    /// Returns the reaction to missed ticks.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets the reaction to missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// Returns the number of missed ticks so far, counted as by
    /// [`time::Interval::missed_ticks`](crate::time::Interval::missed_ticks).
    #[must_use]
    pub fn missed_ticks(&self) -> u64 {
        self.missed_ticks.total()
    }

    /// Returns the time between two ticks: the requested period, but thirty years at most.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl<S: TickSleep> fmt::Debug for ClockInterval<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Interval")
            .field("next", &self.next)
            .field("period", &self.period)
            .field("missed_tick_behavior", &self.missed)
            .finish_non_exhaustive()
    }
}
