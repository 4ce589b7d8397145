//! Ticks at a fixed rate, on all clocks except the exact monotonic one.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::time::MissedTickBehavior;
use crate::time::interval::Pace;

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
/// an interval does not drift. The lateness that the sleep has by design adds to the lateness from which on the
/// [behavior](MissedTickBehavior) decides about the next tick.
///
/// The first poll allocates one sleep, which all later polls use again.
pub struct ClockInterval<S: TickSleep> {
    next: S::Instant,
    pace: Pace,
    // Boxed, because an interval may be moved.
    delay: Option<Pin<Box<S>>>,
}

impl<S: TickSleep> ClockInterval<S> {
    #[track_caller]
    pub(crate) fn new(start: S::Instant, period: Duration) -> Self {
        Self {
            next: start,
            pace: Pace::new(period),
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
        let step = self.pace.step(late, S::lateness(self.pace.period()));
        self.next = S::sum(due, step);
        due
    }

    /// Moves the next tick to one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.pace.period());
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
        if let Some(delay) = &mut self.delay {
            delay.as_mut().aim_at(deadline);
        }
    }

    /// Returns the reaction to late ticks.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.pace.behavior
    }

    /// Sets the reaction to late ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.pace.behavior = behavior;
    }

    /// Sets the lateness from which on the behavior decides about the next tick, as
    /// [`time::Interval::set_missed_tick_tolerance`](crate::time::Interval::set_missed_tick_tolerance) does.
    pub fn set_missed_tick_tolerance(&mut self, tolerance: Duration) {
        self.pace.set_tolerance(tolerance);
    }

    /// Returns the number of missed ticks so far, counted as by
    /// [`time::Interval::missed_ticks`](crate::time::Interval::missed_ticks).
    #[must_use]
    pub fn missed_ticks(&self) -> u64 {
        self.pace.missed_ticks()
    }

    /// Returns the time between two ticks: the requested period, but thirty years at most.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.pace.period()
    }
}

impl<S: TickSleep> fmt::Debug for ClockInterval<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Interval")
            .field("next", &self.next)
            .field("period", &self.pace.period())
            .field("missed_tick_behavior", &self.pace.behavior)
            .finish_non_exhaustive()
    }
}
