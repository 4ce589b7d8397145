//! Timeouts that may be a little late, and whose cost does not depend on the number of pending timeouts.
//!
//! This module has the names of [`time`](crate::time). It is for timers that are nearly always cancelled or pushed out:
//! the idle timeout of a connection, the limit of a request. The timers are queued in a [wheel](crate::wheel), while
//! those of `time` are in a tree. Arming, moving and dropping are O(1) with a hundred thousand pending timers, and
//! pushing a deadline out stores one number.
//!
//! ```
//! use std::time::Duration;
//! use tickless::coarse::{sleep, timeout};
//!
//! # futures::executor::block_on(async {
//! let slow = sleep(Duration::from_secs(3600));
//! assert!(timeout(Duration::from_millis(5), slow).await.is_err());
//! # });
//! ```
//!
//! # How late
//!
//! A timer is never early, not by a nanosecond. A timer less than 63 ms ahead fires up to 1 ms late (a tick). A timer
//! `d` ahead, from 63 ms on, fires up to 8/63 of `d + 1 ms` late: about an eighth, so 30 s end after 33.9 s at the
//! latest. The operating system adds the time to wake a thread. More than 12 days ahead the lateness does not grow
//! further.
//!
//! A timer keeps its slot, and its allowed lateness, when a [`reset`](Sleep::reset) moves it by less than that
//! lateness. The lateness is an eighth of the duration for which the timer was put into its slot, and not of the
//! remaining time. A timer that is pushed out further also stays in its slot, and moves to another one when its old
//! slot is due. Only the first timer of a thread is moved at once, so that no thread wakes without a due timer.
//!
//! Sleeps of one thread that were started at the same time for the same deadline wake their tasks in the order of their
//! starts. A sleep that is started later for that deadline, and so for a shorter duration, may be less late and wake
//! its task first.
//!
//! A task that polls a [`Sleep`] finds it ready as soon as its deadline has passed; only the wake-up is late.
//!
//! # When which is cheaper
//!
//! | | exact | exact, with [slack](crate::time::Sleep::slack) | coarse |
//! |---|---|---|---|
//! | late by design | never | up to the slack, 4.29 s at most | up to an eighth, at least 1 ms |
//! | armed and dropped, while far away | O(1) | O(1), a dozen instructions more | O(1), and 32 bytes less |
//! | pushed out | one store of the time | one store of the times | one store of the time, none within a millisecond |
//! | fires | one wake-up for each | one wake-up for all in a window | one wake-up for all in a slot |
//!
//! A timer that nearly always fires is cheaper with slack: it is sorted only once, shortly before it fires. A timer
//! that nearly never fires is cheaper here, above all if it is pushed out often. You choose the slack, while the
//! lateness here grows with the timeout. Other threads may fire the coarse timers of a worker; exact timers, with slack
//! or without, stay with their thread. A default slack ([`with_slack`](crate::time::with_slack)) has no effect on
//! coarse timers.
//!
//! # What is different from [`time`](crate::time)
//!
//! Apart from the lateness the two modules are the same: laziness, errors, clocks and threads. A [`timeout()`] whose
//! future is ready at its first poll touches no queue. An [`interval()`] keeps its phase, but each of its ticks may be
//! late by an eighth of the period: it is meant for housekeeping.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tickless_core::coarse::WheelSleeper;

use crate::time::Slack;
use crate::time::interval::{ClockInterval, TickSleep};
use crate::time::sleep_timer::SleepTimer;
pub use crate::time::{Duration, Instant, error};

/// Waits for `duration`, counted from this call, and [about an eighth longer](self#how-late) at most.
///
/// Durations up to [`Duration::MAX`] are possible; more than 292 years never end. Zero is ready at once.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// tickless::coarse::sleep(Duration::from_millis(2)).await;
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # });
/// ```
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[inline(always)]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::lasting(duration)
}

/// Waits until `deadline`, and [about an eighth longer](self#how-late) at most.
///
/// The future is ready at once if `deadline` has passed.
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[inline(always)]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(deadline)
}

/// Limits `future` to `duration`, counted from this call, and to [about an eighth more](self#how-late) at most.
///
/// The future is polled first: if it is ready, its result counts, however late it is. More than 292 years are no limit.
///
/// # Errors
///
/// [`Elapsed`](error::Elapsed) when the time ended before the future was ready. The future is dropped with the
/// [`Timeout`], not before.
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep(duration))
}

/// Limits `future` to the time until `deadline`, and to [about an eighth more](self#how-late) at most.
///
/// # Errors
///
/// See [`timeout()`].
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// Returns ticks: the first now, then one every `period`, each up to [about an eighth](self#how-late) of the period
/// late.
///
/// The ticks keep their phase: `tick` returns the instant at which a tick was due, and the next tick is due one period
/// after that instant. Use this interval for housekeeping in large numbers; the ticks of
/// [`time::interval`](crate::time::interval()) are exact.
///
/// ```
/// use std::time::Duration;
/// use tickless::coarse::{Instant, interval_at};
///
/// # futures::executor::block_on(async {
/// let (start, period) = (Instant::now(), Duration::from_millis(2));
/// let mut interval = interval_at(start, period);
/// assert_eq!(interval.tick().await, start);
/// assert_eq!(interval.tick().await, start + period);
/// # });
/// ```
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(Instant::now(), period)
}

/// Returns ticks: the first at `start`, then one every `period`, each up to [about an eighth](self#how-late) of the
/// period late.
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(start, period)
}

/// The ticks that [`interval`] and [`interval_at`] make.
pub type Interval = ClockInterval<Sleep>;

/// The future that [`timeout()`] and [`timeout_at`] return.
///
/// The future takes the size of the inner future and 80 bytes, and allocates nothing. If the inner future is ready at
/// its first poll, no queue is touched.
pub type Timeout<T> = crate::time::Timeout<T, Sleep>;

pin_project! {
    /// The future that [`sleep`] and [`sleep_until`] return.
    ///
    /// The sleep is queued at its first poll, on the thread that polls. It is [`Send`] and [`Sync`], and may be polled,
    /// reset and dropped on any thread; the operations are cheapest on the thread that polled it last. The sleep is not
    /// [`Unpin`]: to use it in a loop or a `select!`, pin it with [`std::pin::pin!`] or [`Box::pin`].
    ///
    /// If the sleep is polled again after it was ready, it is ready again.
    ///
    /// A sleep takes 80 bytes and allocates nothing.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        #[pin]
        timer: SleepTimer<WheelSleeper>,
    }
}

impl Sleep {
    // Always, as in `time::Sleep`.
    #[inline(always)]
    fn lasting(duration: Duration) -> Self {
        let timer = SleepTimer::lasting(duration);
        Self { timer }
    }

    #[inline(always)]
    fn until(deadline: Instant) -> Self {
        let timer = SleepTimer::until(deadline.to_core());
        Self { timer }
    }

    /// Returns the deadline. The future is ready from the deadline on; its task is woken no earlier, and [somewhat
    /// later](self#how-late).
    pub fn deadline(&self) -> Instant {
        Instant::from_core(self.timer.deadline())
    }

    /// Returns true if the deadline has passed; if the sleep was polled, its task must have been woken as well.
    ///
    /// As in tokio, a sleep that was neither polled nor reset since it was made returns `false`, whatever the time.
    pub fn is_elapsed(&self) -> bool {
        self.timer.is_elapsed()
    }

    /// Moves the deadline to `deadline`, also if the future was ready already.
    ///
    /// The task that polled the sleep last is woken at `deadline` without polling again, also if the sleep was ready
    /// before.
    ///
    /// # Cost
    ///
    /// A reset within the millisecond for which the sleep is queued takes a few loads and no lock. A reset within the
    /// sleep's slot takes one lock and one store, and the sleep is [as late as before](self#how-late). Any other reset
    /// is O(1).
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().timer.reset(deadline.to_core());
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().timer.poll(context)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

impl TickSleep for Sleep {
    type Instant = Instant;

    fn ending_at(deadline: Instant, _slack: Option<Slack>) -> Self {
        Self::until(deadline)
    }

    fn aim_at(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline);
    }

    fn go_on_at(self: Pin<&mut Self>, deadline: Instant) {
        self.project().timer.retime(deadline.to_core());
    }

    fn now() -> Instant {
        Instant::now()
    }

    fn sum(instant: Instant, duration: Duration) -> Instant {
        instant + duration
    }

    fn distance(later: Instant, earlier: Instant) -> Duration {
        later.duration_since(earlier)
    }

    /// Returns the [largest lateness](self#how-late) of a sleep.
    fn lateness(&self, duration: Duration) -> Duration {
        let tick = Duration::from_millis(1);
        tick.max(duration.saturating_add(tick) / 63 * 8)
    }
}
