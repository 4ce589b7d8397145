//! The names of `futures-timer` 3, on the timers of [Tickless](tickless): for `[patch.crates-io]`.
//!
//! With this patch, crates that wait by `futures-timer` wait exactly. Their source does not change, and the thread of
//! `futures-timer` is not started:
//!
//! ```toml
//! [patch.crates-io]
//! futures-timer = { path = "tickless/adapters/futures-timer" }
//! ```
#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tickless::time::{self, Instant, Sleep};

/// A future that is ready after a duration.
///
/// Making a delay allocates once; [`reset`](Self::reset) does not allocate. Dropping the delay cancels the timer. A
/// delay whose end is too far away to be represented never ends.
pub struct Delay {
    sleep: Pin<Box<Sleep>>,
}

impl Delay {
    /// Makes a delay that ends `duration` from now.
    #[must_use]
    pub fn new(duration: Duration) -> Self {
        Self {
            sleep: Box::pin(time::sleep(duration)),
        }
    }

    /// Moves the end to `duration` from now. A delay that was over waits again.
    ///
    /// A task that polled the delay before the reset is woken at the new end.
    pub fn reset(&mut self, duration: Duration) {
        self.sleep.as_mut().reset(Instant::now() + duration);
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(context)
    }
}

impl fmt::Debug for Delay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Delay").finish_non_exhaustive()
    }
}
