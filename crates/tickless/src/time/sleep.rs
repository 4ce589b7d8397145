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
use super::sleep_timer::{SleepQueue, SleepTimer};

/// Waits until `deadline`.
///
/// The future is ready at once if `deadline` is over.
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(deadline)
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
    Sleep::lasting(duration)
}

pin_project! {
    /// What [`sleep`] and [`sleep_until`] return, here and in [`coarse`](crate::coarse).
    ///
    /// It is queued at its first poll, on the thread that polls. It is [`Send`] and [`Sync`], and may be polled, reset
    /// and dropped anywhere; on the thread that polled it last that costs least. It is not [`Unpin`]: to use it in a
    /// loop or a `select!`, pin it with [`std::pin::pin!`] or [`Box::pin`].
    ///
    /// Polled again after it was ready, it is ready again.
    ///
    /// `T` is what waits in a queue: an exact timer, or a coarse one.
    ///
    /// Cost: 112 bytes, a coarse one 80; no allocation.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep<T = Sleeper>
    where
        T: SleepQueue,
    {
        #[pin]
        timer: SleepTimer<T>,
    }
}

impl<T: SleepQueue> Sleep<T> {
    #[inline]
    pub(crate) fn lasting(duration: Duration) -> Self {
        let timer = SleepTimer::lasting(duration);
        Self { timer }
    }

    #[inline]
    pub(crate) fn until(deadline: Instant) -> Self {
        let timer = SleepTimer::until(deadline.to_core());
        Self { timer }
    }

    /// The point at which the future is or was ready; a coarse one is not ready before.
    pub fn deadline(&self) -> Instant {
        Instant::from_core(self.timer.deadline())
    }

    /// Whether the time is over; for a coarse one that was polled, whether its task was woken too.
    ///
    /// As in tokio, a sleep that was neither polled nor reset since it was made says `false`, whatever the time.
    pub fn is_elapsed(&self) -> bool {
        self.timer.is_elapsed()
    }

    /// Makes the future ready at `deadline` instead, whether or not it was ready before.
    ///
    /// The task that polled it last is woken then, without polling again, whether it was told to wait or that the time
    /// had come.
    ///
    /// # Cost
    ///
    /// Moving a deadline a little costs two loads and a store if it keeps its place among the thread's other timers.
    ///
    /// A coarse one: within the millisecond for which it is queued loads, no lock; within its slot one lock and one
    /// store, and it is [as late as before](crate::coarse#how-late); else O(1).
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().timer.reset(deadline.to_core());
    }

    /// As [`reset`](Self::reset), but a task that was told that the time had come is not woken before it polls again.
    pub(super) fn retime(self: Pin<&mut Self>, deadline: Instant) {
        self.project().timer.retime(deadline.to_core());
    }
}

impl SleepQueue for Sleeper {
    #[inline]
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn is_queued(&self) -> bool {
        self.is_queued()
    }

    #[inline]
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.idle_waker()
    }

    #[inline]
    fn when(deadline: CoreInstant) -> Start {
        Start::at(deadline)
    }

    /// The start wrote the device.
    #[inline]
    fn publish(_when: Start) {}
}

impl<T: SleepQueue> Future for Sleep<T> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().timer.poll(context)
    }
}

impl<T: SleepQueue> fmt::Debug for Sleep<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
