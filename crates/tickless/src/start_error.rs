//! The error of a thread that begins to use timers.

use std::fmt;
use std::io;

/// The reasons why a thread cannot use timers, or cannot become a [`Worker`](crate::Worker) or
/// [`Driver`](crate::Driver).
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The thread is a worker or a driver already, or was a worker or driver and is still inside of its code.
    AlreadyTaken,
    /// All 65,536 places for threads are taken.
    NoPlace,
    /// The operating system refused a file descriptor or a thread.
    Os(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyTaken => formatter.write_str(
                "this thread runs its own timers already; there is one worker or driver for each thread",
            ),
            Self::NoPlace => formatter.write_str(
                "65,536 threads have timers already; another has to end first",
            ),
            Self::Os(error) => {
                write!(
                    formatter,
                    "the operating system refused what timers need: {error}"
                )
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}
