//! A monotonic for code that is written against rtic-time, in a process.

use std::future::Future;
use std::time::Duration;

use rtic_time::TimeoutError;
use tickless::time::{self, Instant};

/// The time of this process, in nanoseconds, as a [`Monotonic`](rtic_time::Monotonic).
///
/// The program sets up no interrupt and no timer queue. An instant that is too far away to be represented never comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timebase;

impl rtic_time::Timebase for Timebase {
    type Instant = Instant;
    type Duration = Duration;

    fn now() -> Instant {
        Instant::now()
    }

    async fn delay(duration: Duration) {
        time::sleep(duration).await;
    }

    async fn delay_until(instant: Instant) {
        time::sleep_until(instant).await;
    }

    async fn timeout_at<F: Future>(instant: Instant, future: F) -> Result<F::Output, TimeoutError> {
        { time::timeout_at(instant, future).await }.map_err(|_| TimeoutError)
    }

    async fn timeout_after<F: Future>(
        duration: Duration,
        future: F,
    ) -> Result<F::Output, TimeoutError> {
        { time::timeout(duration, future).await }.map_err(|_| TimeoutError)
    }
}
