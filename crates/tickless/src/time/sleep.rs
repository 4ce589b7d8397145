//! Futures that are ready at a certain time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::hrtimer::Sleeper;

use super::Instant;
use super::slack::Slack;
use super::sleep_timer::SleepTimer;

/// Waits until `deadline`.
///
/// The future is ready at once if `deadline` has passed.
///
/// # Cancellation
///
/// Dropping the future cancels it; nothing else is needed.
#[track_caller]
#[inline(always)]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(deadline)
}

/// Waits for `duration`, counted from this call.
///
/// Durations up to [`Duration::MAX`] are possible; more than 292 years never end. Zero is ready at once.
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
#[inline(always)]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::lasting(duration)
}

pin_project! {
    /// The future that [`sleep`] and [`sleep_until`] return.
    ///
    /// The sleep is queued at its first poll, on the thread that polls. It is [`Send`] and [`Sync`], and may be polled,
    /// reset and dropped on any thread; the thread that polled it last does so at the least cost. It is not [`Unpin`]:
    /// to use it in a loop or a `select!`, pin it with [`std::pin::pin!`] or [`Box::pin`].
    ///
    /// If the sleep is polled again after it was ready, it is ready again.
    ///
    /// Cost: 112 bytes, no allocation.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        #[pin]
        timer: SleepTimer<Sleeper>,
    }
}

impl Sleep {
    // Always, as in the timer.
    #[inline(always)]
    pub(crate) fn lasting(duration: Duration) -> Self {
        let timer = SleepTimer::lasting(duration);
        Self { timer }
    }

    #[inline(always)]
    pub(crate) fn until(deadline: Instant) -> Self {
        let timer = SleepTimer::until(deadline.to_core());
        Self { timer }
    }

    /// Returns the instant from which on the future is ready.
    pub fn deadline(&self) -> Instant {
        Instant::from_core(self.timer.deadline())
    }

    /// Returns true if the deadline has passed.
    ///
    /// As in tokio, a sleep that was neither polled nor reset since it was made returns `false`, whatever the time.
    pub fn is_elapsed(&self) -> bool {
        self.timer.is_elapsed()
    }

    /// Moves the deadline to `deadline`, also if the future was ready already.
    ///
    /// The task that polled the sleep last is woken at `deadline` without polling again, also if the sleep was ready
    /// before. A poll on the same thread right after this call does not read the clock again. If the deadline is over
    /// by then, the poll returns `Pending`, and the task is woken.
    ///
    /// # Cost
    ///
    /// Moving a deadline a little costs two loads and a store if the timer keeps its place among the thread's other
    /// timers.
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().timer.reset(deadline.to_core());
    }

    /// Resets as [`reset`](Self::reset) does, but a task that was woken for the old deadline is not woken again before
    /// it polls.
    pub(crate) fn retime(self: Pin<&mut Self>, deadline: Instant) {
        self.project().timer.retime(deadline.to_core());
    }

    /// Lets the sleep end up to `slack` later than its deadline, so that it shares a wake-up with others. `slack` is a
    /// [`Precision`](super::Precision) or a [`Duration`].
    ///
    /// The sleep never ends before its deadline. Within the slack the library chooses the end: when the thread that
    /// expires the sleep wakes up anyway, and at the latest at the *roundest* point of the slack, at which timers of
    /// other threads and processes fire too: a multiple of 1/64 ms or of its longest possible doubling. With a slack of
    /// 1 ms that is a whole millisecond. On a worker of an [attached](crate::tokio#slack) runtime the sleep ends when
    /// the worker runs tasks anyway, and at the latest at the end of its slack. The time that the operating system
    /// needs to wake a thread is added, as always.
    ///
    /// - A sleep for which no slack was set has the slack of the thread or of the scope in which it is first queued:
    ///   [`set_thread_slack`](super::set_thread_slack), [`with_slack`](super::with_slack). `slack(Duration::ZERO)` sets
    ///   no slack at all.
    /// - The slack may be longer than the sleep. A slack of more than 4.29 s (2^32 - 3 ns) counts as this value.
    /// - A sleep that is polled after its deadline is ready, whatever its slack and even if it waits already.
    ///   [`deadline`](Sleep::deadline) and [`is_elapsed`](Sleep::is_elapsed) ignore the slack.
    /// - A [`reset`](Sleep::reset) keeps the slack, and counts it from the new deadline.
    ///
    /// Sleeps of one thread with the same deadline and the same slack end in the order in which they were armed. Sleeps
    /// that only share a wake-up end in any order.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::time::{Precision, sleep};
    ///
    /// # futures::executor::block_on(async {
    /// sleep(Duration::from_millis(2)).slack(Precision::Millisecond).await;
    /// sleep(Duration::from_millis(2)).slack(Duration::from_micros(50)).await;
    /// # });
    /// ```
    ///
    /// # Cost
    ///
    /// Choosing a point takes three dozen instructions each time that the sleep is armed or moved. All other costs,
    /// also on the fast paths of far sleeps, are the same as without slack. The slack takes no memory.
    pub fn slack(self, slack: impl Into<Slack>) -> Self {
        let timer = self.timer.with_slack(slack.into());
        Self { timer }
    }

    /// Sets the [`slack`](Self::slack), which holds from the next time that the timer is queued.
    pub(super) fn set_slack(self: Pin<&mut Self>, slack: Slack) {
        self.project().timer.set_slack(slack);
    }

    /// Returns the slack that was set, or the slack with which the sleep was queued.
    pub(super) fn slack_so_far(&self) -> Slack {
        self.timer.slack()
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
