//! The names of `futures-timer` 3, on the timers of [Tickless](tickless): for `[patch.crates-io]`.
//!
//! Crates that wait by `futures-timer` wait exactly then, without its thread and without a change of their source:
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
/// One allocation; [`reset`](Self::reset) makes none. To drop it cancels the timer. A duration that does not fit is a
/// time that never comes.
pub struct Delay {
    sleep: Pin<Box<Sleep>>,
}

impl Delay {
    /// Makes a delay that is over `duration` from now.
    #[must_use]
    pub fn new(duration: Duration) -> Self {
        Self {
            sleep: Box::pin(time::sleep(duration)),
        }
    }

    /// Moves the end to `duration` from now. A delay that was over waits again.
    ///
    /// A task that polled it before is woken at the new end.
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
