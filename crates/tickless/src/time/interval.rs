//! Ticks at a fixed rate.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tickless_core::time::Span;

use super::slack::Slack;
use super::{Instant, Sleep, sleep_until};

/// Returns an interval: the first tick is due now, then one tick every `period`.
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(Instant::now(), period)
}

/// Returns an interval: the first tick is due at `start`, then one tick every `period`.
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(start, period)
}

/// The reaction of an [`Interval`] to a tick that is taken late.
///
/// A tick is late if it is taken more than 5 ms after it was due, or more than a period if the period is shorter than
/// 5 ms. In tokio the limit is 5 ms for every period. [`Interval::set_missed_tick_tolerance`] sets another limit, and
/// the interval's slack adds to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// The ticks that were due in the meantime follow at once, one after the other. No tick is missed. This is the
    /// default, as in tokio.
    #[default]
    Burst,
    /// The next tick is due one period after the late tick was taken: the phase moves. The ticks for which the interval
    /// no longer has the time are missed.
    Delay,
    /// The ticks that were due in the meantime are missed: the phase stays, and the next tick is in the future.
    Skip,
}

/// The period of an interval, and its reaction to late ticks. The durations are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    period: u64,
    pub(crate) behavior: MissedTickBehavior,
    /// The lateness up to which a tick is not late.
    tolerance: u64,
    /// The time by which late ticks moved all later ticks.
    lost: u64,
}

impl Pace {
    /// Makes the pace of an interval whose period is at most thirty years, as in tokio.
    ///
    /// # Panics
    ///
    /// When `period` is zero.
    #[track_caller]
    pub(crate) fn new(period: Duration) -> Self {
        assert!(period > Duration::ZERO, "`period` must be non-zero.");
        let period = period.min(LONGEST);
        Self {
            period: nanos(period),
            behavior: MissedTickBehavior::default(),
            tolerance: nanos(period.min(TOLERANCE)),
            lost: 0,
        }
    }

    pub(crate) const fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    pub(crate) fn set_tolerance(&mut self, tolerance: Duration) {
        self.tolerance = nanos(tolerance);
    }

    /// Returns the number of missed ticks so far.
    pub(crate) const fn missed_ticks(&self) -> u64 {
        self.lost / self.period
    }

    /// Returns the time from a tick to the next one, if the tick was taken `late` after it was due. `allowed` is the
    /// lateness that the interval's timer may have.
    #[inline]
    pub(crate) fn step(&mut self, late: Duration, allowed: Duration) -> Duration {
        if late <= Duration::from_nanos(self.tolerance).saturating_add(allowed) {
            return self.period();
        }
        self.step_late(nanos(late))
    }

    #[cold]
    fn step_late(&mut self, late: u64) -> Duration {
        let moved = match self.behavior {
            MissedTickBehavior::Burst => return self.period(),
            MissedTickBehavior::Delay => late,
            MissedTickBehavior::Skip => late - late % self.period,
        };
        let before = self.missed_ticks();
        self.lost = self.lost.saturating_add(moved);
        let missed = self.missed_ticks() - before;
        if missed > 0 {
            // Relaxed: a count.
            ALL_MISSED.fetch_add(missed, Ordering::Relaxed);
        }
        self.period().saturating_add(Duration::from_nanos(moved))
    }
}

/// Returns a duration in nanoseconds; 584 years at most.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of ticks that all intervals of the process missed; it wraps around.
static ALL_MISSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of ticks that all intervals of the process missed so far.
pub(crate) fn all_missed() -> u64 {
    // Relaxed: a count.
    ALL_MISSED.load(Ordering::Relaxed)
}

/// The longest possible period, as in tokio: thirty years.
const LONGEST: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The lateness up to which a tick is not late in tokio, and here with a period that is not shorter.
const TOLERANCE: Duration = Duration::from_millis(5);

/// A sleep from which a [`ClockInterval`] is made.
pub trait TickSleep: Future + Sized {
    /// A point on the clock of the sleep.
    type Instant: Copy + fmt::Debug;

    /// Makes a sleep that ends at `deadline`. Only exact sleeps have slack.
    fn ending_at(deadline: Self::Instant, slack: Option<Slack>) -> Self;

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

    /// Returns the lateness that a sleep of `duration` may have: its slack, or what is coarse about it.
    fn lateness(&self, _duration: Duration) -> Duration {
        Duration::ZERO
    }
}

impl TickSleep for Sleep {
    type Instant = Instant;

    fn ending_at(deadline: Instant, slack: Option<Slack>) -> Self {
        let sleep = sleep_until(deadline);
        match slack {
            Some(slack) => sleep.slack(slack),
            None => sleep,
        }
    }

    fn aim_at(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline);
    }

    fn go_on_at(self: Pin<&mut Self>, deadline: Instant) {
        self.retime(deadline);
    }

    fn now() -> Instant {
        Instant::now()
    }

    fn sum(instant: Instant, duration: Duration) -> Instant {
        let sum = instant.checked_add(duration);
        sum.unwrap_or_else(Instant::far_future)
    }

    fn distance(later: Instant, earlier: Instant) -> Duration {
        later.duration_since(earlier)
    }

    fn lateness(&self, duration: Duration) -> Duration {
        self.slack_so_far().of(Span::from(duration)).into()
    }
}

/// The ticks that [`interval`] and [`interval_at`] make.
pub type Interval = ClockInterval<Sleep>;

/// Ticks on the clock of the sleep `S`: [`time::Interval`](crate::time::Interval),
/// [`coarse::Interval`](crate::coarse::Interval), [`boottime::Interval`](crate::boottime::Interval) and
/// [`realtime::Interval`](crate::realtime::Interval).
///
/// The next tick is due one period after the time at which the previous tick was due, not after the time at which it
/// was taken: an interval does not drift. The lateness that a coarse sleep has by design adds to the lateness from
/// which on the [behavior](MissedTickBehavior) decides about the next tick.
pub struct ClockInterval<S: TickSleep> {
    next: S::Instant,
    pace: Pace,
    /// The slack that the user set.
    slack: Option<Slack>,
    /// The sleep that waits for the next tick; the first poll makes it. It outlives the futures of
    /// [`tick`](Self::tick): a task that dropped such a future is woken all the same. It is boxed, because an interval
    /// may be moved.
    delay: Option<Pin<Box<S>>>,
}

impl Interval {
    /// Lets each tick come up to `slack` late, so that it shares a wake-up with others: see [`Sleep::slack`].
    ///
    /// The ticks keep their phase: [`tick`](Self::tick) returns the instant at which a tick was due, and the next tick
    /// is due a period after that instant. The slack adds to the lateness from which on the
    /// [behavior](MissedTickBehavior) decides about the next tick.
    ///
    /// On an interval that was polled before, the slack counts from the next tick or reset on. Without a slack of its
    /// own, the interval has the slack of the thread or scope in which it was first polled.
    #[must_use]
    pub fn slack(mut self, slack: impl Into<Slack>) -> Self {
        let slack = slack.into();
        self.slack = Some(slack);
        if let Some(delay) = &mut self.delay {
            delay.as_mut().set_slack(slack);
        }
        self
    }
}

impl<S: TickSleep> ClockInterval<S> {
    #[track_caller]
    pub(crate) fn new(start: S::Instant, period: Duration) -> Self {
        Self {
            next: start,
            pace: Pace::new(period),
            slack: None,
            delay: None,
        }
    }

    /// Waits for the next tick, and returns the instant at which it was due.
    ///
    /// # Cancellation
    ///
    /// Cancel safe: dropping the future before it is ready loses no tick. If the future was polled, its task is still
    /// woken when the tick is due.
    ///
    /// # Cost
    ///
    /// As [`poll_tick`](Self::poll_tick).
    pub async fn tick(&mut self) -> S::Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Polls for the next tick; the task of `context` is woken when the tick is due.
    ///
    /// # Cost
    ///
    /// The cost is the cost of a sleep. The first call allocates a sleep, which all later calls use again.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<S::Instant> {
        let (next, slack) = (self.next, self.slack);
        let delay = self
            .delay
            .get_or_insert_with(|| Box::pin(S::ending_at(next, slack)));
        let _ended = ready!(delay.as_mut().poll(context));
        let late = S::distance(S::now(), next);
        let step = self.pace.step(late, delay.lateness(self.pace.period()));
        self.next = S::sum(next, step);
        delay.as_mut().go_on_at(self.next);
        Poll::Ready(next)
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
    ///
    /// A task that waits for a tick, or polled for a tick and dropped the future, is woken at `deadline` without
    /// polling again. This holds for all methods that reset the interval.
    pub fn reset_at(&mut self, deadline: S::Instant) {
        self.next = deadline;
        if let Some(delay) = &mut self.delay {
            delay.as_mut().aim_at(deadline);
        }
    }

    /// Returns the reaction to late ticks.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.pace.behavior
    }

    /// Sets the reaction to late ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.pace.behavior = behavior;
    }

    /// Sets the lateness from which on the [behavior](MissedTickBehavior) decides about the next tick; up to that
    /// lateness the next tick is due a period after the previous one. `tokio::time` has no such method: its limit is
    /// 5 ms.
    ///
    /// A limit above the period lets several ticks follow at once, with each behavior, after a delay of up to the
    /// limit.
    pub fn set_missed_tick_tolerance(&mut self, tolerance: Duration) {
        self.pace.set_tolerance(tolerance);
    }

    /// Returns the number of missed ticks so far: the ticks that the period asks for, and that are never taken.
    /// `tokio::time` has no such method.
    ///
    /// The ticks taken and the missed ticks together are the ticks for which there was time. With
    /// [`Burst`](MissedTickBehavior::Burst) no tick is missed. With [`Skip`](MissedTickBehavior::Skip) the skipped
    /// ticks are missed, and with [`Delay`](MissedTickBehavior::Delay) the whole periods by which the phase moved in
    /// all. A reset changes nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::time::{Instant, MissedTickBehavior, interval_at};
    ///
    /// # futures::executor::block_on(async {
    /// let period = Duration::from_secs(60);
    /// let mut interval = interval_at(Instant::now() - period * 5 / 2, period);
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// interval.tick().await;
    /// assert_eq!(interval.missed_ticks(), 2);
    /// # });
    /// ```
    #[must_use]
    pub fn missed_ticks(&self) -> u64 {
        self.pace.missed_ticks()
    }

    /// Returns the time between two ticks: the requested period, but thirty years at most, as in tokio.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [MissedTickBehavior; 3] = [
        MissedTickBehavior::Burst,
        MissedTickBehavior::Delay,
        MissedTickBehavior::Skip,
    ];

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn pace(period: Duration, behavior: MissedTickBehavior) -> Pace {
        Pace {
            behavior,
            ..Pace::new(period)
        }
    }

    fn step(pace: &mut Pace, late: Duration) -> Duration {
        pace.step(late, Duration::ZERO)
    }

    /// The limit is 5 ms for long periods, and the period for short ones.
    #[test]
    fn late_ticks_are_made_up_for_delayed_or_left_out() {
        for (period, in_time, late, steps, missed) in [
            (us(50_000), 5000, 170_000, [50_000, 220_000, 200_000], 3),
            (us(50), 50, 4020, [50, 4070, 4050], 80),
            (us(5000), 5000, 5001, [5000, 10_001, 10_000], 1),
        ] {
            for (behavior, expected) in ALL.into_iter().zip(steps) {
                let mut pace = pace(period, behavior);
                assert_eq!(step(&mut pace, us(in_time)), period, "{pace:?}");
                assert_eq!(pace.missed_ticks(), 0);
                assert_eq!(step(&mut pace, us(late)), us(expected), "{pace:?}");
                let is_burst = behavior == MissedTickBehavior::Burst;
                let expected = if is_burst { 0 } else { missed };
                assert_eq!(pace.missed_ticks(), expected, "{pace:?}");
            }
        }
    }

    #[test]
    fn delays_of_less_than_a_period_add_up_to_missed_ticks() {
        let mut pace = pace(us(50_000), MissedTickBehavior::Delay);
        for missed in [0, 1, 2, 2] {
            assert_eq!(step(&mut pace, us(35_000)), us(85_000));
            assert_eq!(pace.missed_ticks(), missed);
        }
    }

    #[test]
    fn the_tolerance_can_be_set_and_allowed_lateness_adds_to_it() {
        let mut pace = pace(us(50), MissedTickBehavior::Skip);
        assert_eq!(pace.step(us(1050), us(1000)), us(50));
        assert_eq!(pace.step(us(1051), us(1000)), us(1100));
        pace.set_tolerance(us(5000));
        assert_eq!(step(&mut pace, us(5000)), us(50));
        assert_eq!(step(&mut pace, us(5001)), us(5050));
        pace.set_tolerance(Duration::MAX);
        assert_eq!(pace.step(Duration::MAX, Duration::MAX), us(50));
    }

    #[test]
    fn a_tick_taken_exactly_a_period_late_is_skipped_to_the_next() {
        let mut pace = pace(us(50_000), MissedTickBehavior::Skip);
        assert_eq!(step(&mut pace, us(50_000)), us(100_000));
        assert_eq!(pace.missed_ticks(), 1);
    }

    #[test]
    fn periods_and_delays_may_be_of_any_length() {
        for behavior in ALL {
            let mut shortest = pace(Duration::from_nanos(1), behavior);
            for late in [us(10_000_000), Duration::MAX, Duration::MAX] {
                let _any = shortest.step(late, Duration::ZERO);
            }
            let mut longest = pace(Duration::MAX, behavior);
            assert_eq!(step(&mut longest, us(5000)), LONGEST);
        }
    }
}
