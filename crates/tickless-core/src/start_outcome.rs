//! The outcome of a start, for exact and coarse timers.

use core::fmt;

/// The outcome of a start.
///
/// Each call that starts a timer returns a start outcome; so do conditional starts. The outcome describes the moment at
/// which the call took effect. Another thread may have changed the timer since.
///
/// # Cost
///
/// One byte, returned in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a timer that was shut down does not start, and never fires"]
pub enum StartOutcome {
    /// The timer was idle, or its callback was running. Now the timer is queued for its new time.
    Started,
    /// The timer was queued, and now is queued for its new time.
    Restarted,
    /// The condition of the call does not hold, and the timer has not changed. Only conditional starts return this
    /// outcome.
    Unchanged,
    /// The timer was shut down. It is not queued, and no start can queue it again.
    ShutDown,
}

impl StartOutcome {
    /// Returns the outcome for a timer that is queued now. `was_queued` is true if the timer was queued before.
    #[inline]
    pub(crate) const fn of(was_queued: bool) -> Self {
        if was_queued {
            Self::Restarted
        } else {
            Self::Started
        }
    }

    /// Returns true if the timer now has the time of the call: [`Started`](Self::Started) and
    /// [`Restarted`](Self::Restarted).
    #[inline]
    #[must_use]
    pub const fn has_armed(self) -> bool {
        matches!(self, Self::Started | Self::Restarted)
    }

    /// Returns [`ShutDown`](Self::ShutDown) as an error, and every other outcome as a success.
    ///
    /// # Errors
    ///
    /// [`ShutDown`] if the timer was shut down.
    #[inline]
    pub const fn into_result(self) -> Result<Self, ShutDown> {
        match self {
            Self::ShutDown => Err(ShutDown),
            other => Ok(other),
        }
    }
}

/// The error of a start of a timer that was shut down. It is final: the timer cannot be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutDown;

impl fmt::Display for ShutDown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the timer was shut down")
    }
}

impl core::error::Error for ShutDown {}

/// The reason why a checked start was refused. The timer is not queued, and its callback will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The time has passed. Another time may be accepted.
    AlreadyExpired,
    /// The timer was shut down. This is final.
    ShutDown,
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyExpired => formatter.write_str("the time of the timer is over already"),
            Self::ShutDown => ShutDown.fmt(formatter),
        }
    }
}

impl core::error::Error for StartError {}

impl From<ShutDown> for StartError {
    fn from(_: ShutDown) -> Self {
        Self::ShutDown
    }
}
