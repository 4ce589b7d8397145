//! A sleeper for backon, so that its retries wait exactly.

use std::time::Duration;

use tickless::time::{self, Sleep};

/// A sleeper to pass to [`Retry::sleep`](::backon::Retry::sleep), and to
/// [`BlockingRetry::sleep`](::backon::BlockingRetry::sleep), which blocks the thread.
///
/// ```
/// use backon::{ConstantBuilder, Retryable};
/// use tickless_adapters::backon::Sleeper;
///
/// # futures::executor::block_on(async {
/// let policy = ConstantBuilder::default().with_delay(std::time::Duration::from_micros(100));
/// let answer = (|| async { "7".parse::<u32>() }).retry(policy).sleep(Sleeper).await;
/// assert_eq!(answer, Ok(7));
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sleeper;

impl ::backon::Sleeper for Sleeper {
    type Sleep = Sleep;

    fn sleep(&self, duration: Duration) -> Sleep {
        time::sleep(duration)
    }
}

impl ::backon::BlockingSleeper for Sleeper {
    fn sleep(&self, duration: Duration) {
        time::blocking::sleep(duration);
    }
}
