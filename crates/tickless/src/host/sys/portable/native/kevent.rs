//! The calls of `kqueue`, as far as macOS and the BSDs have the same.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Makes a queue, which a program that this one executes does not get.
pub(super) fn queue() -> io::Result<OwnedFd> {
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

/// Returns an event of which nothing is said but its number.
pub(super) fn blank(ident: usize) -> libc::kevent {
    // SAFETY: plain data of which all zeroes is a value; it has more fields on some systems.
    let mut event: libc::kevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.ident = ident;
    event
}

/// Makes `changes`, and waits for something to happen unless `room` is empty or `waits` is false. Returns how many
/// things happened.
pub(super) fn call(
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

/// Number of events in a list, as the system takes it.
#[cfg(not(target_os = "netbsd"))]
fn count(list: &[libc::kevent]) -> libc::c_int {
    libc::c_int::try_from(list.len()).unwrap_or(0)
}

/// Number of events in a list, as the system takes it.
#[cfg(target_os = "netbsd")]
const fn count(list: &[libc::kevent]) -> libc::size_t {
    list.len()
}
