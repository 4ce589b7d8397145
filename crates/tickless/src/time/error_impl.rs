//! The errors of `tokio::time`.

use std::fmt;
use std::io;

/// The error of a [`timeout`](super::timeout()) that ended before its future was ready.
///
/// The error is final for that future: polling the [`Timeout`](super::Timeout) again polls the inner future, and then
/// returns this error again.
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        "deadline has elapsed".fmt(formatter)
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> Self {
        io::ErrorKind::TimedOut.into()
    }
}

/// The error that tokio's timers can report, for code that names it.
///
/// No function of this library returns this error: the library has no driver that could be shut down and no capacity,
/// and no duration is too long. The texts are tokio's, because code may compare them.
#[derive(Clone, Copy, Debug)]
pub struct Error(TimeErrorKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeErrorKind {
    Shutdown,
    AtCapacity,
    Invalid,
}

impl Error {
    /// Makes the error of a timer whose driver was shut down.
    pub fn shutdown() -> Self {
        Self(TimeErrorKind::Shutdown)
    }

    /// Returns true if the error is of timers that were shut down.
    pub fn is_shutdown(&self) -> bool {
        self.0 == TimeErrorKind::Shutdown
    }

    /// Makes the error of a timer that exceeds the capacity.
    pub fn at_capacity() -> Self {
        Self(TimeErrorKind::AtCapacity)
    }

    /// Returns true if the error is of too many timers.
    pub fn is_at_capacity(&self) -> bool {
        self.0 == TimeErrorKind::AtCapacity
    }

    /// Makes the error of a duration that is too long.
    pub fn invalid() -> Self {
        Self(TimeErrorKind::Invalid)
    }

    /// Returns true if the error is of a duration that is too long.
    pub fn is_invalid(&self) -> bool {
        self.0 == TimeErrorKind::Invalid
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            TimeErrorKind::Shutdown => {
                "the timer is shutdown, must be called from the context of Tokio runtime"
            }
            TimeErrorKind::AtCapacity => "timer is at capacity and cannot create a new entry",
            TimeErrorKind::Invalid => "timer duration exceeds maximum duration",
        })
    }
}

impl std::error::Error for Error {}
