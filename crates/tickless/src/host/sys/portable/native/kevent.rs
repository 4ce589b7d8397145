//! The calls of `kqueue`; only the setting of a timer differs between macOS and the BSDs.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::kqueue::{Calls, Queue};
use super::set_length;

/// The number of a queue's timer, and of its bell.
const ONLY: usize = 1;

/// The sleeper of this system.
pub(crate) type Native = Queue<System>;

/// The calls of this system.
#[derive(Debug)]
pub(crate) struct System;

impl Calls for System {
    type Event = libc::kevent;

    fn queue() -> io::Result<OwnedFd> {
        queue()
    }

    fn timer(left: u64) -> libc::kevent {
        let mut event = blank();
        event.filter = libc::EVFILT_TIMER;
        event.flags = libc::EV_ADD | libc::EV_ONESHOT;
        set_length(&mut event, left);
        event
    }

    fn no_timer() -> libc::kevent {
        let mut event = blank();
        event.filter = libc::EVFILT_TIMER;
        event.flags = libc::EV_DELETE;
        event
    }

    fn bell() -> libc::kevent {
        let mut event = blank();
        event.filter = libc::EVFILT_USER;
        event.flags = libc::EV_ADD | libc::EV_CLEAR;
        event
    }

    fn ring() -> libc::kevent {
        let mut event = blank();
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
        call(queue, changes, room, waits)
    }
}

fn queue() -> io::Result<OwnedFd> {
    // SAFETY: it has no preconditions.
    let queue = unsafe { libc::kqueue() };
    if queue < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and nothing else knows it.
    let queue = unsafe { OwnedFd::from_raw_fd(queue) };
    // SAFETY: it is open.
    let kept = unsafe { libc::fcntl(queue.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    if kept < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(queue)
}

/// Returns an event in which only the number is set.
fn blank() -> libc::kevent {
    // SAFETY: plain data of which all zeroes is a value; it has more fields on some systems.
    let mut event: libc::kevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.ident = ONLY;
    event
}

fn call(
    queue: BorrowedFd<'_>,
    changes: &[libc::kevent],
    room: &mut [libc::kevent],
    waits: bool,
) -> io::Result<usize> {
    static AT_ONCE: libc::timespec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let timeout = if waits && !room.is_empty() {
        ptr::null()
    } else {
        &raw const AT_ONCE
    };
    // SAFETY: the queue is open, the lists have as many events as is said and live as long as the call, as the time
    // does.
    let happened = unsafe {
        libc::kevent(
            queue.as_raw_fd(),
            changes.as_ptr(),
            count(changes),
            room.as_mut_ptr(),
            count(room),
            timeout,
        )
    };
    usize::try_from(happened).map_err(|_| io::Error::last_os_error())
}

/// Returns the number of events in a list, in the type of the system.
#[cfg(not(target_os = "netbsd"))]
fn count(list: &[libc::kevent]) -> libc::c_int {
    libc::c_int::try_from(list.len()).unwrap_or(0)
}

/// Returns the number of events in a list, in the type of the system.
#[cfg(target_os = "netbsd")]
const fn count(list: &[libc::kevent]) -> libc::size_t {
    list.len()
}

pub(crate) mod timers {
    //! The queues that an event loop watches.

    use std::io;
    use std::os::fd::AsFd as _;
    pub(crate) use std::os::fd::{BorrowedFd as BorrowedTimer, OwnedFd as OwnedTimer};

    use super::super::kqueue::{drain_timer, make_timer, set_timer};
    use super::System;

    pub(crate) fn borrow(timer: &OwnedTimer) -> BorrowedTimer<'_> {
        timer.as_fd()
    }

    /// Makes a timer that is not set.
    pub(crate) fn make() -> io::Result<OwnedTimer> {
        make_timer::<System>()
    }

    /// Sets the timer to ring in `left` nanoseconds, or never.
    pub(crate) fn set(timer: BorrowedTimer<'_>, left: Option<u64>) {
        set_timer::<System>(timer, left);
    }

    /// Silences a timer that rang; `false` if it did not ring.
    pub(crate) fn drain(timer: BorrowedTimer<'_>) -> bool {
        drain_timer::<System>(timer)
    }
}
