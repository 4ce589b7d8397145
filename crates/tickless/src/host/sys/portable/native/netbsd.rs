//! NetBSD: `kqueue` timers in nanoseconds.
//!
//! As kqueue(2) says: `NOTE_NSECONDS` is the unit of a timer's data. `NOTE_ABSTIME` would make it a time of the day,
//! which can be set, so a timer is told its length;
//! NetBSD before 10 has no `EVFILT_USER`, refuses the bell, and condition variables serve as without this file.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use super::kevent;
use super::kqueue::{Calls, Queue};
pub(crate) use super::posix::set_realtime_priority;

/// Number of the timer of a queue, and of its bell.
const ONLY: usize = 1;

/// The sleeper of this system.
pub(crate) type Native = Queue<NetBsd>;

/// The calls of this system.
#[derive(Debug)]
pub(crate) struct NetBsd;

impl Calls for NetBsd {
    type Event = libc::kevent;

    fn queue() -> io::Result<OwnedFd> {
        kevent::queue()
    }

    fn timer(left: u64) -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_TIMER;
        event.flags = libc::EV_ADD | libc::EV_ONESHOT;
        event.fflags = libc::NOTE_NSECONDS;
        event.data = i64::try_from(left).unwrap_or(i64::MAX).min(LONGEST);
        event
    }

    fn no_timer() -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_TIMER;
        event.flags = libc::EV_DELETE;
        event
    }

    fn bell() -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_USER;
        event.flags = libc::EV_ADD | libc::EV_CLEAR;
        event
    }

    fn ring() -> libc::kevent {
        let mut event = kevent::blank(ONLY);
        event.filter = libc::EVFILT_USER;
        event.fflags = libc::NOTE_TRIGGER;
        event
    }

    fn call(
        queue: BorrowedFd<'_>,
        changes: &[libc::kevent],
        room: &mut [libc::kevent],
        waits: bool,
    ) -> io::Result<usize> {
        kevent::call(queue, changes, room, waits)
    }
}

/// Longest time that a timer is set for, in nanoseconds: a year. What is later is asked for again then.
const LONGEST: i64 = 365 * 24 * 3600 * 1_000_000_000;

/// Sleeps.
pub(crate) fn nap(time: Duration) {
    std::thread::sleep(time);
}

pub(crate) mod timers {
    //! Queues that an event loop watches.

    use std::io;
    use std::os::fd::AsFd as _;
    pub(crate) use std::os::fd::{BorrowedFd as BorrowedTimer, OwnedFd as OwnedTimer};

    use super::super::kqueue::{drain_timer, make_timer, set_timer};
    use super::NetBsd;

    pub(crate) fn borrow(timer: &OwnedTimer) -> BorrowedTimer<'_> {
        timer.as_fd()
    }

    /// Makes one that is not set.
    pub(crate) fn make() -> io::Result<OwnedTimer> {
        make_timer::<NetBsd>()
    }

    /// Sets it to ring in `left` nanoseconds, or never.
    pub(crate) fn set(timer: BorrowedTimer<'_>, left: Option<u64>) {
        set_timer::<NetBsd>(timer, left);
    }

    /// Makes one that rang silent; `false` if it was.
    pub(crate) fn drain(timer: BorrowedTimer<'_>) -> bool {
        drain_timer::<NetBsd>(timer)
    }
}
