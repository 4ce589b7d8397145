//! The errors of `tokio::time`.

use std::fmt;
use std::io;

/// The time of a [`timeout`](super::timeout()) was over before the future was ready.
///
/// Final for that future: polling the [`Timeout`](super::Timeout) again polls the future again and then gives the same
/// answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("deadline has elapsed")
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
/// Never produced here: there is no driver that could be shut down, no capacity, and no duration that is too long.
#[derive(Debug)]
pub struct Error(Never);

#[derive(Debug)]
enum Never {}

impl Error {
    /// Whether the timers were shut down. They never are.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        match self.0 {}
    }

    /// Whether there are too many timers. There never are.
    #[must_use]
    pub fn is_at_capacity(&self) -> bool {
        match self.0 {}
    }

    /// Whether a duration is too long. None is.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        match self.0 {}
    }
}

impl fmt::Display for Error {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl std::error::Error for Error {}
