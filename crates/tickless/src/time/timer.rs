//! A timer that its owner keeps and sets again and again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Instant, Sleep, sleep_until};

/// A timer that its owner keeps and sets again and again: a future that is ready once, periodically, or never.
///
/// The names and semantics are those of `async_io::Timer`, exact to the nanosecond and without a reactor. Where a
/// [`Sleep`] is pinned and lies in its future, a `Timer` is [`Unpin`], can be a field of a structure, and is polled by
/// `&mut timer`. With the feature `stream` it is a `Stream` too, and a timer that [repeats](Self::interval) gives an
/// item for each tick.
///
/// The future is ready with the instant for which the timer was set. A timer that repeats is then set for the next
/// tick. Any other timer is not ready again until it is set again.
///
/// ```
/// use std::time::Duration;
/// use tickless::time::{Instant, Timer};
///
/// struct Connection {
///     idle: Timer,
/// }
///
/// # futures::executor::block_on(async {
/// let mut connection = Connection { idle: Timer::never() };
/// let start = Instant::now();
/// connection.idle.set_after(Duration::from_micros(50));
/// let due = (&mut connection.idle).await;
/// assert!(due >= start + Duration::from_micros(50) && Instant::now() >= due);
/// # });
/// ```
///
/// # Ticks
///
/// The next tick of a timer that repeats is one period after the previous tick, not after the poll that took the
/// previous tick. Missed ticks follow at once; an [`Interval`](super::Interval) leaves them out or counts them.
///
/// # Cancellation
///
/// Dropping the timer cancels it. After a `set_...`, the task that polled the timer last is woken when the timer is
/// ready, without polling again.
///
/// # Cost
///
/// 40 bytes. The first poll allocates a [`Sleep`], which all later polls use again.
#[derive(Debug)]
#[must_use = "timers do nothing unless you `.await` or poll them"]
pub struct Timer {
    /// `None` if the timer is not to be ready.
    when: Option<Instant>,
    /// `None` if the timer does not repeat.
    period: Option<Duration>,
    // Boxed, because a timer may be moved.
    delay: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Makes a timer that is never ready unless it is set again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::time::{Timer, timeout};
    ///
    /// # futures::executor::block_on(async {
    /// let limit: Option<Duration> = None;
    /// let timer = limit.map_or_else(Timer::never, Timer::after);
    /// assert!(timeout(Duration::from_millis(1), timer).await.is_err());
    /// # });
    /// ```
    pub const fn never() -> Self {
        Self {
            when: None,
            period: None,
            delay: None,
        }
    }

    /// Makes a timer that is ready once, `duration` from this call. If the duration is too long for an [`Instant`], the
    /// timer is [never](Self::never) ready.
    pub fn after(duration: Duration) -> Self {
        Self::set_for(Instant::now().checked_add(duration), None)
    }

    /// Makes a timer that is ready once, at `instant`.
    pub fn at(instant: impl Into<Instant>) -> Self {
        Self::set_for(Some(instant.into()), None)
    }

    /// Makes a timer that is ready each `period`, for the first time a period from this call.
    ///
    /// With a period of zero the timer is ready whenever it is polled.
    pub fn interval(period: Duration) -> Self {
        Self::set_for(Instant::now().checked_add(period), Some(period))
    }

    /// Makes a timer that is ready at `start`, and each `period` from then on.
    pub fn interval_at(start: impl Into<Instant>, period: Duration) -> Self {
        Self::set_for(Some(start.into()), Some(period))
    }

    const fn set_for(when: Option<Instant>, period: Option<Duration>) -> Self {
        Self {
            when,
            period,
            delay: None,
        }
    }

    /// Returns true if the timer is set: it is ready, or will be ready.
    #[must_use]
    pub const fn will_fire(&self) -> bool {
        self.when.is_some()
    }

    /// Returns the instant for which the timer is set.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.when
    }

    /// Sets the timer to be ready once, `duration` from this call.
    ///
    /// The task that polled the timer last is woken at that time. The other methods that set the timer do the same.
    pub fn set_after(&mut self, duration: Duration) {
        self.set(Instant::now().checked_add(duration), None);
    }

    /// Sets the timer to be ready once, at `instant`.
    pub fn set_at(&mut self, instant: impl Into<Instant>) {
        self.set(Some(instant.into()), None);
    }

    /// Sets the timer to be ready each `period`, for the first time a period from this call.
    pub fn set_interval(&mut self, period: Duration) {
        self.set(Instant::now().checked_add(period), Some(period));
    }

    /// Sets the timer to be ready at `start`, and each `period` from then on.
    pub fn set_interval_at(&mut self, start: impl Into<Instant>, period: Duration) {
        self.set(Some(start.into()), Some(period));
    }

    /// Sets the timer to be never ready, until it is set again.
    pub fn clear(&mut self) {
        self.set(None, None);
    }

    fn set(&mut self, when: Option<Instant>, period: Option<Duration>) {
        self.when = when;
        self.period = period;
        if let Some(delay) = &mut self.delay {
            delay.as_mut().reset(when.unwrap_or(Instant::NEVER));
        }
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Instant> {
        // A timer that is not set keeps the waker too: once it is set, it wakes the task.
        let aim = self.when.unwrap_or(Instant::NEVER);
        let delay = self.delay.get_or_insert_with(|| Box::pin(sleep_until(aim)));
        ready!(delay.as_mut().poll(context));
        let Some(due) = self.when else {
            return Poll::Pending;
        };
        self.when = self.period.and_then(|period| due.checked_add(period));
        let next = self.when.unwrap_or(Instant::NEVER);
        if let Some(delay) = &mut self.delay {
            delay.as_mut().retime(next);
        }
        Poll::Ready(due)
    }
}

/// The stream of the timer's ticks. It never ends: a timer that is not set may be set again.
#[cfg(feature = "stream")]
impl futures_core::Stream for Timer {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll(context).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}
