//! The interface that the machines need of their host: a clock, and timers with callbacks.

use tickless_core::hrtimer::Setup;
use tickless_core::time::{Instant, Span};

#[cfg(not(loom))]
mod simulated;
#[cfg(not(loom))]
mod user_space;

#[cfg(not(loom))]
pub use simulated::Simulated;
#[cfg(not(loom))]
pub use user_space::{UserSpace, UserTimer};

/// A clock and timers.
///
/// Cheap to clone: all clones are the same host.
pub trait Host: Clone {
    /// A timer of this host.
    type Timer: Timer;

    /// The time, on the monotonic clock.
    fn now(&self) -> Instant;

    /// Makes an idle timer that calls `expired` with the time that found it due.
    ///
    /// The callback MUST be called without locks, and never twice at the same time. It MAY run on another thread than
    /// that which starts the timer.
    fn timer(&self, setup: Setup, expired: impl FnMut(Instant) + Send + 'static) -> Self::Timer;

    /// Returns at `until` or later, at once if it is over: for the microseconds that hardware takes, without giving up
    /// the processor.
    fn wait_until(&self, until: Instant);
}

/// A timer with a callback.
///
/// Dropping it cancels it, and waits for a callback that runs.
pub trait Timer {
    /// Makes the timer fire at `earliest` at the earliest and `slack` later at the latest, whether or not it waited to
    /// fire before. At once if that is over.
    fn start(&self, earliest: Instant, slack: Span);

    /// Takes the timer back. MUST NOT wait: a callback that runs goes on.
    fn stop(&self);

    /// Takes the timer back. A callback MUST NOT be running when this returns.
    fn cancel(&self);
}
