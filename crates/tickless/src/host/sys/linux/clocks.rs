//! The clocks of the kernel, in nanoseconds.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
pub(crate) use rustix::time::Timespec;
use rustix::time::{
    ClockId, DynamicClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    clock_gettime, clock_gettime_dynamic, timerfd_create, timerfd_settime,
};
use tickless_core::time::Clock;

use crate::host::sys::Heard;

/// Returns the time of the monotonic clock, read by the C library.
#[inline]
pub(crate) fn monotonic() -> i64 {
    nanos_of(clock_gettime(ClockId::Monotonic))
}

/// Returns the time of the monotonic clock, read by a system call without the C library; `None` if that call is
/// refused.
pub(crate) fn monotonic_by_call() -> Option<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives as long as the call, which writes it.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_MONOTONIC,
            &raw mut time,
        )
    };
    #[allow(
        clippy::useless_conversion,
        clippy::allow_attributes,
        reason = "the fields are shorter on 32 bits"
    )]
    (refused == 0).then(|| i64::from(time.tv_sec) * 1_000_000_000 + i64::from(time.tv_nsec))
}

/// Returns the time of `clock`; `None` if the kernel does not have this clock, or a filter of system calls refuses the
/// call.
pub(crate) fn show(clock: Clock) -> Option<i64> {
    let id = match clock {
        Clock::Monotonic => DynamicClockId::Known(ClockId::Monotonic),
        Clock::Realtime => DynamicClockId::Known(ClockId::Realtime),
        Clock::Boottime => DynamicClockId::Known(ClockId::Boottime),
        Clock::Tai => DynamicClockId::Tai,
    };
    clock_gettime_dynamic(id).ok().map(saturating_nanos_of)
}

/// Returns the time for which the calling thread executed; `None` if a filter of system calls refuses the call.
pub(crate) fn thread_executed() -> Option<i64> {
    let id = DynamicClockId::Known(ClockId::ThreadCPUTime);
    clock_gettime_dynamic(id).ok().map(saturating_nanos_of)
}

/// A descriptor that becomes readable when the time of day is set, and when the machine wakes from a suspend.
#[derive(Debug)]
pub(crate) struct Sets {
    fd: OwnedFd,
}

impl Sets {
    /// Makes the descriptor, and registers for sets with the kernel.
    pub(crate) fn watch() -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        let never = Timespec {
            tv_sec: i64::MAX / 4_000_000_000,
            tv_nsec: 0,
        };
        let new = Itimerspec {
            it_interval: timespec(0),
            it_value: never,
        };
        set_timerfd(fd.as_fd(), flags, new)?;
        Ok(Self { fd })
    }

    /// Waits until a clock is set. The timer of the descriptor itself is set for a time that never comes.
    pub(crate) fn wait(&self) -> Heard {
        match rustix::io::read(&self.fd, &mut [0; 8]) {
            Err(Errno::CANCELED) => Heard::Set,
            Err(Errno::INTR) => Heard::Nothing,
            _ => Heard::Lost,
        }
    }
}

/// Sets a timer file descriptor to `new`, or to the last time that the C library can represent if `new` is later.
///
/// A 32-bit program whose C library is linked statically, or is old, has only the old call, whose seconds have 32 bits.
/// A thread that is woken too early reads its clock, and waits again.
pub(crate) fn set_timerfd(
    fd: BorrowedFd<'_>,
    flags: TimerfdTimerFlags,
    mut new: Itimerspec,
) -> rustix::io::Result<()> {
    match timerfd_settime(fd, flags, &new) {
        Err(Errno::OVERFLOW) => {
            new.it_value.tv_sec = i32::MAX.into();
            timerfd_settime(fd, flags, &new).map(drop)
        }
        other => other.map(drop),
    }
}

/// Converts nanoseconds, which are zero or more, to the kernel's type.
pub(crate) const fn timespec(nanos: i64) -> Timespec {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::allow_attributes,
        reason = "below a billion, and the field is shorter on 32 bits"
    )]
    Timespec {
        tv_sec: nanos / 1_000_000_000,
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}

#[inline]
#[allow(
    clippy::useless_conversion,
    clippy::allow_attributes,
    reason = "the field is shorter on 32 bits"
)]
fn nanos_of(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + i64::from(time.tv_nsec)
}

#[allow(
    clippy::useless_conversion,
    clippy::allow_attributes,
    reason = "the field is shorter on 32 bits"
)]
fn saturating_nanos_of(time: Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(time.tv_nsec))
}
