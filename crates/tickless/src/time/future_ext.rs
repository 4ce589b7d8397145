//! Time limits as methods of futures.

use std::future::Future;
use std::time::Duration;

use super::{Instant, Timeout, timeout, timeout_at};

/// Methods that give a future a time limit: `tokio_util::time::FutureExt`.
///
/// ```
/// use std::future::{pending, ready};
/// use std::time::Duration;
/// use tickless::time::FutureExt;
///
/// # futures::executor::block_on(async {
/// assert_eq!(ready(7).timeout(Duration::from_secs(1)).await, Ok(7));
/// assert!(pending::<()>().timeout(Duration::from_micros(50)).await.is_err());
/// # });
/// ```
pub trait FutureExt: Future {
    /// Limits the future to `duration`, counted from this call: [`timeout()`] as a method.
    ///
    /// # Errors
    ///
    /// [`Elapsed`](super::error::Elapsed) if the time was over before the future was ready.
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout(duration, self)
    }

    /// Limits the future to the time until `deadline`: [`timeout_at`] as a method.
    ///
    /// # Errors
    ///
    /// [`Elapsed`](super::error::Elapsed) if the time was over before the future was ready.
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout_at(deadline, self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
