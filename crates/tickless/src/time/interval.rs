//! Ticks at a fixed rate.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::slack::Slack;
use super::{Instant, Sleep, sleep_until};

/// Returns an interval: the first tick is due now, then one tick every `period`.
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    Interval::new(Instant::now(), period)
}

/// Returns an interval: the first tick is due at `start`, then one tick every `period`.
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    Interval::new(start, period)
}

/// The reaction of an [`Interval`] to ticks that were missed.
///
/// A tick is missed if it is taken more than 5 ms late, as in tokio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Missed ticks are due at once, one after the other, until no missed tick is left. This is the default, as in
    /// tokio.
    #[default]
    Burst,
    /// The next tick is due one period after the late tick was taken: the phase moves.
    Delay,
    /// Missed ticks are skipped: the phase stays.
    Skip,
}

impl MissedTickBehavior {
    /// Returns the time of the tick after `missed`, if `missed` is taken at `now`.
    fn next(self, missed: Instant, now: Instant, period: Duration) -> Option<Instant> {
        missed.checked_add(self.step(now.duration_since(missed), period)?)
    }

    /// Returns the time from a missed tick to the next tick, if the missed tick was taken `late` after it was due.
    pub(crate) fn step(self, late: Duration, period: Duration) -> Option<Duration> {
        match self {
            Self::Burst => Some(period),
            Self::Delay => late.checked_add(period),
            Self::Skip => {
                // In nanoseconds of 128 bits: no period is too long and no delay too large.
                let phase = late.as_nanos() % period.as_nanos().max(1);
                let phase = Duration::from_nanos(u64::try_from(phase).unwrap_or(u64::MAX));
                late.checked_add(period)?.checked_sub(phase)
            }
        }
    }
}

/// A counter of the ticks that were due before the previous tick was taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MissedTicks {
    total: u64,
    /// The number of counted ticks that are still to be taken.
    ahead: u64,
}

impl MissedTicks {
    /// Returns the number of missed ticks so far.
    pub(crate) const fn total(self) -> u64 {
        self.total
    }

    /// Counts the ticks that were missed because a tick was taken `late` after it was due. `are_dropped` says that the
    /// missed ticks will not be taken.
    #[inline]
    pub(crate) fn note(&mut self, late: Duration, period: Duration, are_dropped: bool) {
        let known = self.ahead.saturating_sub(1);
        self.ahead = known;
        if late >= period {
            self.note_missed(late, period);
        }
        if are_dropped {
            self.ahead = 0;
        }
    }

    #[cold]
    fn note_missed(&mut self, late: Duration, period: Duration) {
        let over = late.as_nanos() / period.as_nanos().max(1);
        let over = u64::try_from(over).unwrap_or(u64::MAX);
        let missed = over.saturating_sub(self.ahead);
        if missed > 0 {
            // Relaxed: a count.
            ALL_MISSED.fetch_add(missed, Ordering::Relaxed);
            #[cfg(feature = "tracing")]
            tracing::debug!(target: "tickless::interval", missed, ?late, ?period, "ticks were missed");
            self.total = self.total.saturating_add(missed);
        }
        self.ahead = over.max(self.ahead);
    }

    /// Forgets the ticks that are still to be taken, because the interval was reset.
    pub(crate) const fn reset(&mut self) {
        self.ahead = 0;
    }
}

/// The number of ticks that all intervals of the process missed; it wraps around.
static ALL_MISSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of ticks that all intervals of the process missed so far.
pub(crate) fn all_missed() -> u64 {
    // Relaxed: a count.
    ALL_MISSED.load(Ordering::Relaxed)
}

/// The longest possible period, as in tokio: thirty years.
pub(crate) const LONGEST: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The lateness from which on a tick counts as missed.
pub(crate) const MISSED: Duration = Duration::from_millis(5);

/// The ticks that [`interval`] and [`interval_at`] make.
///
/// The next tick is due one period after the time at which the previous tick was due, not after the time at which it
/// was taken: an interval does not drift.
pub struct Interval {
    next: Instant,
    period: Duration,
    missed: MissedTickBehavior,
    missed_ticks: MissedTicks,
    /// The slack that the user set.
    slack: Option<Slack>,
    /// The sleep that waits for the next tick; the first poll makes it. It outlives the futures of
    /// [`tick`](Interval::tick): a task that dropped such a future is woken all the same. It is boxed, because an
    /// interval may be moved.
    delay: Option<Pin<Box<Sleep>>>,
}

impl Interval {
    fn new(start: Instant, period: Duration) -> Self {
        Self {
            next: start,
            period: period.min(LONGEST),
            missed: MissedTickBehavior::default(),
            missed_ticks: MissedTicks::default(),
            slack: None,
            delay: None,
        }
    }

    /// Lets each tick come up to `slack` late, so that it shares a wake-up with others: see [`Sleep::slack`].
    ///
    /// The ticks keep their phase: [`tick`](Self::tick) returns the instant at which a tick was due, and the next tick
    /// is due a period after that instant. A tick counts as missed when it is taken more than 5 ms plus the slack late.
    ///
    /// On an interval that was polled before, the slack counts from the next tick or reset on. Without a slack of its
    /// own, the interval has the slack of the thread or scope in which it was first polled.
    #[must_use]
    pub fn slack(mut self, slack: impl Into<Duration>) -> Self {
        let slack = Slack::new(slack.into());
        self.slack = Some(slack);
        if let Some(delay) = &mut self.delay {
            delay.as_mut().set_slack(slack);
        }
        self
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
    /// As [`poll_tick`](Interval::poll_tick).
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Polls for the next tick; the task of `context` is woken when the tick is due.
    ///
    /// # Cost
    ///
    /// The cost is the cost of a [`Sleep`]. The first call allocates a sleep, which all later calls use again.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        let (next, slack) = (self.next, self.slack);
        let delay = self.delay.get_or_insert_with(|| {
            let sleep = sleep_until(next);
            Box::pin(match slack {
                Some(slack) => sleep.slack(slack.duration()),
                None => sleep,
            })
        });
        ready!(delay.as_mut().poll(context));
        let due = self.advance();
        if let Some(delay) = &mut self.delay {
            delay.as_mut().retime(self.next);
        }
        Poll::Ready(due)
    }

    /// Takes the tick that is due.
    fn advance(&mut self) -> Instant {
        let due = self.next;
        let now = Instant::now();
        let slack = self.delay.as_ref().map(|delay| delay.slack_so_far());
        let is_missed = now > due + MISSED + slack.unwrap_or_default();
        let next = if is_missed {
            self.missed.next(due, now, self.period)
        } else {
            due.checked_add(self.period)
        };
        let are_dropped = is_missed && self.missed != MissedTickBehavior::Burst;
        let late = now.duration_since(due);
        self.missed_ticks.note(late, self.period, are_dropped);
        self.next = next.unwrap_or_else(Instant::far_future);
        due
    }

    /// Moves the next tick to one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Makes the next tick due at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Moves the next tick to `after` from now.
    pub fn reset_after(&mut self, after: Duration) {
        let next = Instant::now().checked_add(after);
        self.reset_at(next.unwrap_or_else(Instant::far_future));
    }

    /// Moves the next tick to `deadline`.
    ///
    /// A task that waits for a tick, or polled for a tick and dropped the future, is woken at `deadline` without
    /// polling again. This holds for all methods that reset the interval.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next = deadline;
        self.missed_ticks.reset();
        if let Some(delay) = &mut self.delay {
            delay.as_mut().reset(deadline);
        }
    }

    /// Returns the reaction to missed ticks.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets the reaction to missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// Returns the number of missed ticks so far: the ticks that were due before the previous tick was taken.
    /// `tokio::time` has no such method.
    ///
    /// Each such tick counts once, with any [behavior](MissedTickBehavior). With [`Burst`](MissedTickBehavior::Burst)
    /// the missed ticks are taken later, with [`Delay`](MissedTickBehavior::Delay) and
    /// [`Skip`](MissedTickBehavior::Skip) never. A task that takes each tick less than a period late has missed none.
    ///
    /// ```
    /// use std::thread;
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
        self.missed_ticks.total()
    }

    /// Returns the time between two ticks: the requested period, but thirty years at most, as in tokio.
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Interval")
            .field("next", &self.next)
            .field("period", &self.period)
            .field("missed_tick_behavior", &self.missed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        // All instants of a test count from one origin.
        thread_local!(static ORIGIN: Instant = Instant::now());
        ORIGIN.with(|origin| *origin) + Duration::from_millis(millis)
    }

    #[test]
    fn missed_ticks_are_made_up_for_delayed_or_left_out() {
        let period = Duration::from_millis(50);
        let next = |behavior: MissedTickBehavior| behavior.next(at(100), at(270), period);
        assert_eq!(next(MissedTickBehavior::Burst), Some(at(150)));
        assert_eq!(next(MissedTickBehavior::Delay), Some(at(320)));
        assert_eq!(next(MissedTickBehavior::Skip), Some(at(300)));
    }

    #[test]
    fn each_missed_tick_counts_once() {
        let period = Duration::from_millis(50);
        let late = |millis| Duration::from_millis(millis);
        // Made up for: each that was over is found late again when it is taken.
        let mut burst = MissedTicks::default();
        for millis in [170, 120, 70, 20] {
            burst.note(late(millis), period, false);
            assert_eq!(burst.total(), 3);
        }
        burst.note(late(49), period, false);
        burst.note(late(50), period, false);
        assert_eq!(burst.total(), 4);
        // The next one is late by more.
        burst.note(late(150), period, false);
        assert_eq!(burst.total(), 7);
        // Left out.
        let mut dropped = MissedTicks::default();
        for total in [3, 6] {
            dropped.note(late(170), period, true);
            assert_eq!(dropped.total(), total);
        }
    }

    #[test]
    fn a_tick_taken_exactly_a_period_late_is_skipped_to_the_next() {
        let period = Duration::from_millis(50);
        assert_eq!(
            MissedTickBehavior::Skip.next(at(100), at(150), period),
            Some(at(200))
        );
    }

    #[test]
    fn periods_of_any_length_have_a_next_tick_or_none() {
        let all = [
            MissedTickBehavior::Burst,
            MissedTickBehavior::Delay,
            MissedTickBehavior::Skip,
        ];
        for behavior in all {
            let _any = behavior.next(at(0), at(10_000), Duration::MAX);
            assert!(
                behavior
                    .next(at(0), at(10_000), Duration::from_nanos(1))
                    .is_some()
            );
        }
    }
}
