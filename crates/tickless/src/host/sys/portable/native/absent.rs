//! The implementation for systems for which this library has no native timers: the sleeps of the standard library are
//! used.

use std::io;
use std::time::Duration;

use crate::host::sys::portable::sleeper::Sleeper;

/// A finer timer; the type has no values, because none is known on this system.
#[derive(Debug)]
pub(crate) enum Native {}

impl Sleeper for Native {
    fn make() -> Option<Self> {
        None
    }

    fn sleep(&self, _left: u64) -> bool {
        match *self {}
    }

    fn ring(&self) {
        match *self {}
    }
}

/// Sleeps for `time`.
#[cfg(not(event_host))]
pub(crate) fn nap(time: Duration) {
    std::thread::sleep(time);
}

/// Does nothing, because the only thread must not wait.
#[cfg(event_host)]
pub(crate) fn nap(_time: Duration) {}

/// Fails: threads get no real-time priority on this system.
pub(crate) fn set_realtime_priority(_priority: Option<u8>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) mod timers {
    //! The timers of event loops, which do not exist on these systems.

    use std::io;

    use crate::host::sys::portable::descriptors::AsFd as _;
    pub(crate) use crate::host::sys::portable::descriptors::{
        BorrowedFd as BorrowedTimer, OwnedFd as OwnedTimer,
    };

    pub(crate) fn borrow(timer: &OwnedTimer) -> BorrowedTimer<'_> {
        timer.as_fd()
    }

    /// Returns `Unsupported`: there are no timers.
    pub(crate) fn make() -> io::Result<OwnedTimer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Does nothing, because there is no timer.
    pub(crate) fn set(_timer: BorrowedTimer<'_>, _left: Option<u64>) {}

    /// Returns that no timer rang.
    pub(crate) fn drain(_timer: BorrowedTimer<'_>) -> bool {
        false
    }
}
