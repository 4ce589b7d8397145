//! The descriptors that the host uses: timers, counts of wake-ups, and epoll instances.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::io;
use std::os::fd::IntoRawFd;
pub(crate) use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};
pub(crate) use rustix::event::{PollFd, PollFlags, epoll, poll};
pub(crate) use rustix::io::{Errno, Result};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create};

use super::clocks::{set_timerfd, timespec};
use crate::host::sys::{AlarmClock, Until};

/// A descriptor that is made on its first use, and keeps its number.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OnceLock<OwnedFd>,
    /// True if this process is the child of a fork, and the system refused to make a descriptor for it. The number then
    /// belongs to another process's object, or to none.
    is_lost: AtomicBool,
}

impl Descriptor {
    pub(crate) const fn new() -> Self {
        Self {
            fd: OnceLock::new(),
            is_lost: AtomicBool::new(false),
        }
    }

    /// Returns the descriptor, if it was ever needed and exists.
    pub(crate) fn existing(&self) -> Option<BorrowedFd<'_>> {
        // Relaxed: written while there was no other thread.
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        self.fd.get().filter(|_| !is_lost).map(OwnedFd::as_fd)
    }

    /// Returns the descriptor; makes it by `make` if there is none. Called by the thread to which it belongs.
    pub(crate) fn get_or_make(
        &self,
        make: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<BorrowedFd<'_>> {
        if self.fd.get().is_some() {
            return self.existing().ok_or(Errno::BADF);
        }
        let fd = make()?;
        Ok(self.fd.get_or_init(|| fd).as_fd())
    }

    /// Replaces, in the child of a fork, the descriptor that the child shares with its parent: puts a new descriptor,
    /// made by `make`, under the same number. If the system refuses, the descriptor is lost for ever, and a caller that
    /// needs it gets an error. Most children execute another program and never need it.
    pub(crate) fn separate(&self, make: fn() -> Result<OwnedFd>) {
        let Some(number) = self.existing().map(|fd| fd.as_raw_fd()) else {
            return;
        };
        let made = make().or_else(|_| {
            // The process may have as many descriptors as it may.
            // SAFETY: the descriptor is the library's own, and the number means the same to it again or nothing from
            // here on. There is no other thread that could take it.
            unsafe { libc::close(number) };
            make()
        });
        let made = made.map(IntoRawFd::into_raw_fd);
        if made != Ok(number) && !made.is_ok_and(|own| is_moved(own, number)) {
            // Relaxed: there is no other thread.
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }
}

/// Puts the descriptor `own` under `number`, which belongs to the library, in place of the present one. Returns whether
/// that succeeded.
fn is_moved(own: RawFd, number: RawFd) -> bool {
    // SAFETY: what stands under the number, if anything, is the library's and not used by another thread.
    let moved = unsafe { libc::dup3(own, number, libc::O_CLOEXEC) };
    // SAFETY: it is open, and nothing else knows it.
    unsafe { libc::close(own) };
    moved == number
}

/// Makes a timer file descriptor that is not set.
pub(crate) fn make_timer() -> Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let made = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    // A filter of system calls may refuse to set what it let be made: it would never ring.
    set(made.as_fd(), Until::Never)?;
    Ok(made)
}

/// Makes a timer file descriptor that wakes a suspended machine, and is not set.
pub(crate) fn make_alarm(clock: AlarmClock) -> Result<OwnedFd> {
    let id = match clock {
        AlarmClock::Boottime => TimerfdClockId::BoottimeAlarm,
        AlarmClock::Realtime => TimerfdClockId::RealtimeAlarm,
    };
    let made = timerfd_create(id, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    // The right is needed for each setting, too.
    set(made.as_fd(), Until::Never)?;
    Ok(made)
}

/// Sets a timer file descriptor; this replaces an earlier setting.
pub(crate) fn set_timer(fd: BorrowedFd<'_>, until: Until) {
    // The kernel took a time when the descriptor was made.
    let _cannot_fail = set(fd, until);
}

fn set(fd: BorrowedFd<'_>, until: Until) -> Result<()> {
    let (flags, new) = spec_of(until);
    set_timerfd(fd, flags, new)
}

/// Returns the flags and the time for the setting of a timer file descriptor.
fn spec_of(until: Until) -> (TimerfdTimerFlags, Itimerspec) {
    let (flags, nanos) = match until {
        // That disarms it, so no other time is zero (spec CPL-11).
        Until::Never => (TimerfdTimerFlags::ABSTIME, 0),
        Until::At(nanos) => (TimerfdTimerFlags::ABSTIME, nanos),
        Until::In(nanos) => (TimerfdTimerFlags::empty(), nanos),
    };
    let new = Itimerspec {
        it_interval: timespec(0),
        it_value: timespec(nanos),
    };
    (flags, new)
}

/// Makes a descriptor that counts wake-ups.
pub(crate) fn make_count() -> Result<OwnedFd> {
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    // A filter of system calls may refuse those that every wake-up makes: the thread would never be woken.
    rustix::io::write(&made, &1_u64.to_ne_bytes())?;
    rustix::io::read(&made, &mut [0; 8])?;
    Ok(made)
}

/// Adds one to a descriptor that counts wake-ups, which makes it readable.
pub(crate) fn count_one(fd: BorrowedFd<'_>) {
    // It fails only when it is readable already, by 2^64 wake-ups.
    let _count = rustix::io::write(fd, &1_u64.to_ne_bytes());
}

/// Makes a timer or a count unreadable; `false` if it was unreadable before.
pub(crate) fn drain(fd: BorrowedFd<'_>) -> bool {
    take_count(fd) > 0
}

/// Makes a timer or a count unreadable; returns how much was counted, zero if it was unreadable before.
pub(crate) fn take_count(fd: BorrowedFd<'_>) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

/// Makes `fd` non-blocking: its operations return instead of waiting.
pub(crate) fn set_non_blocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

/// Returns true if the system may later grant the thread, descriptor or memory that it refused now.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let code = Errno::from_io_error(error);
    code.is_some_and(|code| passing.contains(&code))
}

/// Returns true if the error of a file says that its device no longer exists, as for a CPU that is taken offline at
/// this moment.
pub(crate) fn is_no_device(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::super::clocks::Sets;
    use super::*;

    #[test]
    fn no_time_but_never_disarms_a_timer() {
        let (flags, new) = spec_of(Until::At(5_000_000_007));
        assert_eq!(flags, TimerfdTimerFlags::ABSTIME);
        assert_eq!((new.it_value.tv_sec, new.it_value.tv_nsec), (5, 7));
        assert_eq!(spec_of(Until::In(1)).0, TimerfdTimerFlags::empty());
        assert_eq!(spec_of(Until::Never).1.it_value, timespec(0));
    }

    /// Arms a descriptor for the greatest time that can be represented. On a 32-bit system a C library may have only
    /// the old call, `timerfd_settime` with 32-bit seconds.
    #[test]
    fn a_timer_takes_each_time_that_there_is() {
        let timer = make_timer().expect("there are descriptors");
        for until in [Until::At(i64::MAX), Until::In(i64::MAX), Until::Never] {
            assert_eq!(set(timer.as_fd(), until), Ok(()), "{until:?}");
        }
        Sets::watch().expect("the kernel tells of sets");
    }
}
