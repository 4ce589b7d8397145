//! Threads that fire their timers from an event loop of their own.

#[cfg(windows)]
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, RawHandle};

use super::local::{LocalTimers, Turn};
use crate::host::device;
#[cfg(not(windows))]
use crate::host::sys::descriptors::{AsFd, AsRawFd, BorrowedFd, RawFd};
use crate::host::sys::timers::{BorrowedTimer, drain};
use crate::host::thread::ThreadKind;
use crate::start_error::StartError;
use crate::time::Instant;

/// The timers of a thread that has its own event loop: a file descriptor to wait for, and a method to call when the
/// descriptor is readable.
///
/// Making a driver moves the firing of the current thread's timers to its event loop, until the driver is dropped.
/// While the loop takes no turns the background thread fires exact timers, 10 ms late at first and then in time. The
/// descriptor is a `timerfd`, programmed to the nanosecond for the first timer of the thread, exact or coarse; it works
/// in epoll, poll, select, io_uring and every library on top of them. When the thread ends, the library keeps the
/// descriptor for the next thread with a driver: a process has as many as it had such threads at one time.
///
/// On macOS, FreeBSD and NetBSD the descriptor is a kqueue, which kqueue, poll and select can watch. On Windows it is a
/// waitable timer (`AsHandle`), which is signalled from the first due deadline until the next turn. On other systems
/// the driver has no descriptor, and [`new`](Self::new) returns [`Unsupported`](std::io::ErrorKind::Unsupported).
///
/// ```
/// use std::os::fd::AsFd;
/// use std::time::Duration;
/// use rustix::event::{PollFd, PollFlags, poll};
/// use tickless::hrtimer::{HrTimer, Restart, Span, Start};
///
/// let driver = tickless::Driver::new()?;
/// let timer = std::pin::pin!(HrTimer::new(|_| Restart::No));
/// let _ = timer.as_ref().start(Start::after(Span::from_micros(100)));
///
/// let fd = driver.as_fd();
/// let mut fired = 0;
/// while fired == 0 {
///     poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)?;
///     fired = driver.turn().fired;
/// }
/// assert_eq!(fired, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Driver {
    timers: LocalTimers,
    timer: BorrowedTimer<'static>,
}

impl Driver {
    /// Makes this thread fire its timers by calls of [`turn`](Self::turn) from its event loop.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the thread runs its own timers already, if there are too many threads with timers, or if the
    /// system refuses the descriptor.
    pub fn new() -> Result<Self, StartError> {
        let timers = LocalTimers::take(ThreadKind::EventLoop)?;
        let timer = timers
            .base
            .local()
            .device
            .timerfd()
            .map_err(StartError::Os)?;
        Ok(Self { timers, timer })
    }

    /// Fires the timers that are due, and programs the descriptor for the next timer. Call this method when the
    /// descriptor is readable; a call at another time does no harm.
    ///
    /// # Panics
    ///
    /// If it is called inside of a callback or a waker, because these run in a turn themselves.
    #[track_caller]
    pub fn turn(&self) -> Turn {
        // Makes the descriptor unreadable; nothing to read is no error, and it stays set for what it is.
        if drain(self.timer) {
            device::use_up(self.timers.base);
        }
        self.timers.turn()
    }

    /// Returns the deadline of the first timer of this thread, or `None` if no timer is pending. The method is for
    /// event loops that compute their timeout instead of waiting for the descriptor.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Sets whether the background thread fires exact timers of this thread if the thread has taken no turn 10 ms after
    /// the first of these timers was due. Default: yes.
    pub fn set_helped(&self, is_helped: bool) {
        self.timers.set_helped(is_helped);
    }

    /// Makes the descriptor readable now.
    #[cfg(feature = "internals")]
    pub(crate) fn poke(&self) {
        device::kick(self.timers.base);
    }
}

#[cfg(not(windows))]
impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer
    }
}

#[cfg(not(windows))]
impl AsRawFd for Driver {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}

#[cfg(windows)]
impl AsHandle for Driver {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.timer
    }
}

#[cfg(windows)]
impl AsRawHandle for Driver {
    fn as_raw_handle(&self) -> RawHandle {
        self.timer.as_raw_handle()
    }
}
