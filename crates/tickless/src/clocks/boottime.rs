//! Timers on a clock that also counts the time for which the machine is suspended.
//!
//! The clock of [`time`](crate::time) stands while the machine is suspended: an hour that was half over when the lid
//! was closed is half over when the lid is opened. The clock of this module keeps running (`CLOCK_BOOTTIME`). Use it
//! for a lease, a token or a cache entry whose time another machine counts too. A set of the time of day does not
//! change this clock.
//!
//! ```
//! use std::time::Duration;
//! use tickless::boottime::{Instant, sleep, timeout};
//!
//! # futures::executor::block_on(async {
//! let start = Instant::now();
//! sleep(Duration::from_millis(1)).await;
//! assert!(start.elapsed() >= Duration::from_millis(1));
//!
//! let lease = std::future::pending::<()>();
//! assert!(timeout(Duration::from_millis(1), lease).await.is_err());
//! # });
//! ```
//!
//! # What wakes the process after a resume
//!
//! A thread of this library blocks in the read of a timer descriptor. The kernel ends that read when the time of day is
//! set (`TFD_TIMER_CANCEL_ON_SET`), and also when the machine wakes from a suspend. The thread starts with the first
//! timer on a clock that can be set. After the read it computes by how much the clocks moved, and fires the timers that
//! are due by then. Until the thread has fired them, some microseconds after the resume, no timer knows of the suspend.
//!
//! A timer does not wake a *suspended machine*: it fires after the resume. A [`WakeAlarm`] wakes the machine.
//!
//! Some emulations of Linux do not end the read. In that case a timer that is awaited is compared with the clock
//! whenever it is polled, and whenever another timer on such a clock is started or polled. Without such a comparison
//! the timer is late by the part of the suspend before its deadline, and never early.
//! [`clock::is_told_of_sets`](crate::clock::is_told_of_sets) returns whether the kernel ends the read.
//!
//! # Limits and cost
//!
//! The range is 292 years from the start of the machine. A future takes 120 bytes and allocates nothing; each of its
//! polls reads the clock from the kernel, which takes some tens of nanoseconds. For callbacks, use
//! [`hrtimer`](crate::hrtimer) with [`Boottime`].

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
pub use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::time::{Boottime, ClockId};

use super::clock_timer::{ClockTimer, Waits};
use super::point::Point;
pub use crate::time::interval::ClockInterval;
use crate::time::interval::TickSleep;
use crate::time::{Slack, Timeout};

/// A point on the clock that also counts suspended time.
pub type Instant = Point<Boottime>;

/// Waits for `duration`, suspended time included, counted from this call.
///
/// A duration of more than 292 years never ends. Zero is ready at once.
///
/// # Cancellation
///
/// Dropping the future cancels it.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Waits until `deadline`. The future is ready at once if the deadline has passed.
///
/// # Cancellation
///
/// Dropping the future cancels it.
pub fn sleep_until(deadline: Instant) -> Sleep {
    ClockSleep::until(deadline)
}

/// Limits `future` to `duration`, suspended time included, counted from this call.
///
/// The future is polled first: if it is ready, its result counts, however late it is.
///
/// # Errors
///
/// [`Elapsed`](crate::time::error::Elapsed) when the time ended before the future was ready.
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture, Sleep> {
    Timeout::new(future.into_future(), sleep(duration))
}

/// Limits `future` to the time until `deadline`.
///
/// # Errors
///
/// See [`timeout()`].
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture, Sleep> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// Returns ticks: the first now, then one every `period`, suspended time included.
///
/// Ticks that were due during a suspend count as missed after the suspend.
///
/// ```
/// use std::time::Duration;
/// use tickless::boottime::{Instant, interval_at};
///
/// # futures::executor::block_on(async {
/// let (start, period) = (Instant::now(), Duration::from_micros(200));
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

/// Returns ticks: the first at `start`, then one every `period`, suspended time included.
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(start, period)
}

/// An alarm on this clock, which wakes a suspended machine.
pub type WakeAlarm = super::wake_alarm::WakeAlarm<Boottime>;

/// The ticks that [`interval`] and [`interval_at`] make.
pub type Interval = ClockInterval<Sleep>;

/// The future that [`sleep`] and [`sleep_until`] return.
pub type Sleep = ClockSleep<Boottime>;

pin_project! {
    /// A future that is ready at a time on the clock `C`: [`boottime::Sleep`](crate::boottime::Sleep) and
    /// [`tai::Sleep`](crate::tai::Sleep).
    ///
    /// The sleep is queued at its first poll, on the thread that polls. If it is polled again after it was ready, it is
    /// ready again.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ClockSleep<C>
    where
        C: ClockId,
    {
        #[pin]
        timer: ClockTimer<C>,
    }
}

impl<C: ClockId> ClockSleep<C> {
    pub(super) fn until(deadline: Point<C>) -> Self {
        Self {
            timer: ClockTimer::new(deadline.to_core(), Waits::ForDeadline),
        }
    }

    /// Returns the point from which on the future is ready.
    #[must_use]
    pub fn deadline(&self) -> Point<C> {
        Point::from_core(self.timer.deadline())
    }

    /// Moves the deadline to `deadline`, also if the future was ready already. Poll the future again afterwards: the
    /// task is not woken for a deadline that has passed.
    pub fn reset(self: Pin<&mut Self>, deadline: Point<C>) {
        self.project().timer.reset(deadline.to_core());
    }
}

impl<C: ClockId> TickSleep for ClockSleep<C> {
    type Instant = Point<C>;

    fn ending_at(deadline: Point<C>, _slack: Option<Slack>) -> Self {
        Self::until(deadline)
    }

    fn aim_at(self: Pin<&mut Self>, deadline: Point<C>) {
        self.reset(deadline);
    }

    fn now() -> Point<C> {
        Point::now()
    }

    fn sum(instant: Point<C>, duration: Duration) -> Point<C> {
        instant + duration
    }

    fn distance(later: Point<C>, earlier: Point<C>) -> Duration {
        later.duration_since(earlier)
    }
}

impl<C: ClockId> Future for ClockSleep<C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().timer.poll(context).map(|_due| ())
    }
}

impl<C: ClockId> fmt::Debug for ClockSleep<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
