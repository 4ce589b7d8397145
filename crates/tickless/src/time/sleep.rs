//! Futures that are ready at a certain time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::hrtimer::{Sleeper, Start};
use tickless_core::time::Instant as CoreInstant;

use super::Instant;
use super::sleep_timer::{Alarm, Delay};
use crate::host::registry::timers;

/// Waits until `deadline`.
///
/// The future is ready at once if `deadline` is over.
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        delay: Delay::until(deadline.to_core()),
    }
}

/// Waits for `duration`, counted from this call.
///
/// Durations up to [`Duration::MAX`] are possible; more than 292 years are never over. Zero is ready at once.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// tickless::time::sleep(Duration::from_micros(50)).await;
/// assert!(start.elapsed() >= Duration::from_micros(50));
/// # });
/// ```
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[track_caller]
#[inline]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep {
        delay: Delay::lasting(duration),
    }
}

pin_project! {
    /// What [`sleep`] and [`sleep_until`] return.
    ///
    /// It is queued at its first poll, on the thread that polls. It is [`Send`] and [`Sync`], and may be polled, reset
    /// and dropped anywhere; on the thread that polled it last that costs least. It is not [`Unpin`]: to use it in a
    /// loop or a `select!`, pin it with [`std::pin::pin!`] or [`Box::pin`].
    ///
    /// Polled again after it was ready, it is ready again.
    ///
    /// Cost: 112 bytes, no allocation.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        #[pin]
        delay: Delay<Sleeper>,
    }
}

impl Sleep {
    /// The point at which the future is or was ready.
    pub fn deadline(&self) -> Instant {
        Instant::from_core(self.delay.deadline())
    }

    /// Whether the time is over.
    ///
    /// As in tokio, a sleep that was neither polled nor reset since it was made says `false`, whatever the time.
    pub fn is_elapsed(&self) -> bool {
        self.delay.is_elapsed()
    }

    /// Makes the future ready at `deadline` instead, whether or not it was ready before.
    ///
    /// The task that polled it last is woken then, without polling again, whether it was told to wait or that the time
    /// had come. Moving a deadline a little costs two loads and a store if it keeps its place among the thread's other
    /// timers.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().delay.reset(deadline.to_core());
    }

    /// As [`reset`](Self::reset), but a task that was told that the time had come is not woken before it polls again.
    pub(super) fn retime(self: Pin<&mut Self>, deadline: Instant) {
        self.project().delay.retime(deadline.to_core());
    }
}

impl Alarm for Sleeper {
    #[inline]
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn is_queued(&self) -> bool {
        self.is_queued()
    }

    #[inline]
    fn arm(self: Pin<&mut Self>, deadline: CoreInstant, waker: Waker) -> Option<Waker> {
        timers().start_sleeper(self, Start::at(deadline), waker)
    }

    #[inline(never)]
    fn rearm(self: Pin<&Self>, deadline: CoreInstant) -> bool {
        timers().restart_sleeper(self, Start::at(deadline))
    }

    #[inline]
    fn cancel(self: Pin<&Self>) -> Option<Waker> {
        timers().cancel_sleeper(self)
    }

    #[inline]
    fn will_wake(self: Pin<&Self>, waker: &Waker) -> Option<bool> {
        timers().sleeper_will_wake(self, waker)
    }

    #[inline]
    fn kept(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.idle_waker()
    }

    #[inline]
    fn set_waker(self: Pin<&Self>, waker: Waker) -> Result<Option<Waker>, Waker> {
        timers().set_sleeper_waker(self, waker)
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().delay.poll(context)
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
