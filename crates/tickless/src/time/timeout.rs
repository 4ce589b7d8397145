//! Futures with a time limit.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::budget::poll_limited;
use super::error::Elapsed;
use super::slack::Slack;
use super::{Instant, Sleep, sleep, sleep_until};

/// Limits `future` to `duration`, counted from this call.
///
/// The future is polled first: if it is ready, its result counts, however late it is. A duration of more than 292 years
/// is no limit.
///
/// # Errors
///
/// [`Elapsed`] if the time was over before the future was ready. The future is dropped with the [`Timeout`], not
/// before.
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
#[track_caller]
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep(duration))
}

/// Limits `future` to the time until `deadline`.
///
/// # Errors
///
/// As for [`timeout()`].
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

pin_project! {
    /// The future that [`timeout()`] and [`timeout_at`] return.
    ///
    /// Cost: the future and 112 bytes, no allocation. If the future is ready at its first poll, no queue is ever
    /// touched. `S` is the sleep that ends the future; [`coarse`](crate::coarse) uses another sleep.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[derive(Debug)]
    pub struct Timeout<T, S = Sleep> {
        #[pin]
        value: T,
        #[pin]
        delay: S,
    }
}

impl<T, S> Timeout<T, S> {
    #[inline]
    pub(crate) fn new(value: T, delay: S) -> Self {
        Self { value, delay }
    }

    /// Returns the future inside.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns the future inside.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the future inside, without its limit.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Timeout<T> {
    /// Lets the time end up to `slack` later, so that it shares a wake-up with others: see [`Sleep::slack`].
    ///
    /// The future inside is polled as before; its own timers do not get the slack.
    pub fn slack(self, slack: impl Into<Slack>) -> Self {
        let Self { value, delay } = self;
        Self::new(value, delay.slack(slack))
    }
}

impl<T: Future, S: Future<Output = ()>> Future for Timeout<T, S> {
    type Output = Result<T::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let value = |context: &mut Context<'_>| this.value.poll(context);
        let limit = |context: &mut Context<'_>| this.delay.as_mut().poll(context);
        poll_limited(context, value, limit).map_err(|()| Elapsed::new())
    }
}
