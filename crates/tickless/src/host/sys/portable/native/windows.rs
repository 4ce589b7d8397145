//! The implementation for Windows: waitable timers, events, and priorities of threads.
//!
//! A timer of high resolution rings within half a millisecond, whatever tick the system has. Windows before 10 (1803)
//! refuses such a timer, and an ordinary timer rings at a tick. Timers are set to lengths of time, because absolute
//! times would be on the time of day, which can be set.
//!
//! # Ground rules
//!
//! - *Owned*: a handle that is passed to a call belongs to an `OwnedHandle` or `BorrowedHandle`, and stays open for the
//!   whole call.
//! - An event loop's timer stays signalled until it is set again, so that the wait of its owner does not use it up.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::time::Duration;

use windows_sys::Win32::Foundation::{HANDLE, WAIT_FAILED, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CREATE_WAITABLE_TIMER_MANUAL_RESET, CancelWaitableTimer,
    CreateEventW, CreateWaitableTimerExW, GetCurrentThread, INFINITE, SetEvent, SetThreadPriority,
    SetWaitableTimer, THREAD_PRIORITY_ABOVE_NORMAL, THREAD_PRIORITY_HIGHEST,
    THREAD_PRIORITY_NORMAL, THREAD_PRIORITY_TIME_CRITICAL, TIMER_ALL_ACCESS,
    WaitForMultipleObjects, WaitForSingleObject,
};

use crate::host::sys::portable::sleeper::Sleeper;

/// The unit of times that the system accepts, in nanoseconds.
const UNIT: u64 = 100;

/// The longest time for which a timer is set, in nanoseconds: a hundred years. For a later deadline the timer is set
/// again then.
const LONGEST: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;

/// A timer and an event, for which one thread waits.
#[derive(Debug)]
pub(crate) struct Native {
    timer: OwnedHandle,
    bell: OwnedHandle,
}

impl Sleeper for Native {
    fn make() -> Option<Self> {
        let timer = make(0).ok()?;
        // SAFETY: no attributes and no name are given.
        let bell = unsafe { CreateEventW(ptr::null(), 0, 0, ptr::null()) };
        let bell = owned(bell).ok()?;
        Some(Self { timer, bell })
    }

    fn sleep(&self, left: u64) -> bool {
        if !set(&self.timer, left) {
            return false;
        }
        let both: [HANDLE; 2] = [self.bell.as_raw_handle(), self.timer.as_raw_handle()];
        // SAFETY: *Owned*, and the array has two.
        let waited = unsafe { WaitForMultipleObjects(2, both.as_ptr(), 0, INFINITE) };
        if waited == WAIT_OBJECT_0 {
            // SAFETY: *Owned*.
            let _best_effort = unsafe { CancelWaitableTimer(both[1]) };
        }
        waited != WAIT_FAILED
    }

    fn ring(&self) {
        // SAFETY: *Owned*.
        let _cannot_fail = unsafe { SetEvent(self.bell.as_raw_handle()) };
    }
}

/// Makes a timer that is not set. It has high resolution, or is an ordinary timer if the system refuses high
/// resolution.
fn make(flags: u32) -> io::Result<OwnedHandle> {
    make_by(|more| {
        // SAFETY: no attributes and no name are given.
        owned(unsafe {
            CreateWaitableTimerExW(ptr::null(), ptr::null(), flags | more, TIMER_ALL_ACCESS)
        })
    })
}

/// Calls `create` with the flag of high resolution, and again without the flag if the system refuses it.
fn make_by<T>(create: impl Fn(u32) -> io::Result<T>) -> io::Result<T> {
    create(CREATE_WAITABLE_TIMER_HIGH_RESOLUTION).or_else(|_| create(0))
}

/// Takes the ownership of a handle that the system made.
fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was made for the caller, who alone knows it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Sets a timer, which is then silent until it rings in `left` nanoseconds. Returns `false` if the system refuses.
fn set(timer: &impl AsHandle, left: u64) -> bool {
    let due = units(left);
    // SAFETY: *Owned*; the time lives as long as the call, and no function is to be called.
    let set = unsafe {
        SetWaitableTimer(
            timer.as_handle().as_raw_handle(),
            &raw const due,
            0,
            None,
            ptr::null(),
            0,
        )
    };
    set != 0
}

/// Returns a length of time in the form that the system accepts: negative, and rounded up.
fn units(left: u64) -> i64 {
    -left.clamp(1, LONGEST).div_ceil(UNIT).cast_signed()
}

/// Sleeps for `time`.
pub(crate) fn nap(time: Duration) {
    std::thread::sleep(time);
}

/// Gives this thread one of the three priorities that Windows has above the normal one, or removes the priority.
pub(crate) fn set_realtime_priority(priority: Option<u8>) -> io::Result<()> {
    let level = match priority {
        None => THREAD_PRIORITY_NORMAL,
        Some(..=33) => THREAD_PRIORITY_ABOVE_NORMAL,
        Some(34..=66) => THREAD_PRIORITY_HIGHEST,
        Some(67..) => THREAD_PRIORITY_TIME_CRITICAL,
    };
    // SAFETY: it has no preconditions.
    let this = unsafe { GetCurrentThread() };
    // SAFETY: the handle stands for the calling thread.
    match unsafe { SetThreadPriority(this, level) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

pub(crate) mod timers {
    //! The timers for which an event loop waits.

    pub(crate) use std::os::windows::io::{
        BorrowedHandle as BorrowedTimer, OwnedHandle as OwnedTimer,
    };

    use super::{
        AsHandle, AsRawHandle, CREATE_WAITABLE_TIMER_MANUAL_RESET, CancelWaitableTimer, LONGEST,
        WAIT_OBJECT_0, WaitForSingleObject, io,
    };

    pub(crate) fn borrow(timer: &OwnedTimer) -> BorrowedTimer<'_> {
        timer.as_handle()
    }

    /// Makes a timer that is not set.
    pub(crate) fn make() -> io::Result<OwnedTimer> {
        super::make(CREATE_WAITABLE_TIMER_MANUAL_RESET)
    }

    /// Sets the timer to ring in `left` nanoseconds, or never.
    pub(crate) fn set(timer: BorrowedTimer<'_>, left: Option<u64>) {
        // Cancelling alone leaves one signalled that rang.
        let _cannot_fail = super::set(&timer, left.unwrap_or(LONGEST));
        if left.is_none() {
            // SAFETY: *Owned*.
            let _cannot_fail = unsafe { CancelWaitableTimer(timer.as_raw_handle()) };
        }
    }

    /// Returns whether the timer rang. The turn that follows sets the timer again, which makes it silent.
    pub(crate) fn drain(timer: BorrowedTimer<'_>) -> bool {
        // SAFETY: *Owned*. The call does not wait.
        let waited = unsafe { WaitForSingleObject(timer.as_raw_handle(), 0) };
        waited == WAIT_OBJECT_0
    }
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::Threading::GetThreadPriority;

    use super::*;

    #[test]
    fn a_length_is_rounded_up_to_units_of_the_system() {
        let expected = [(0, -1), (1, -1), (100, -1), (101, -2), (1_000_000, -10_000)];
        for (nanos, due) in expected {
            assert_eq!(units(nanos), due, "{nanos}");
        }
        assert_eq!(units(u64::MAX), units(LONGEST));
    }

    #[test]
    fn an_ordinary_timer_stands_in_for_one_of_high_resolution() {
        let made = make_by(|flags| match flags {
            0 => Ok("ordinary"),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        });
        assert_eq!(made.expect("one is granted"), "ordinary");
        assert_eq!(
            make_by(Ok).ok(),
            Some(CREATE_WAITABLE_TIMER_HIGH_RESOLUTION)
        );
    }

    #[test]
    fn a_priority_is_one_of_the_systems_levels() {
        let level = || {
            // SAFETY: it has no preconditions.
            let this = unsafe { GetCurrentThread() };
            // SAFETY: the handle stands for the calling thread.
            unsafe { GetThreadPriority(this) }
        };
        for (priority, expected) in [(1, 1), (33, 1), (34, 2), (66, 2), (67, 15), (99, 15)] {
            set_realtime_priority(Some(priority)).expect("Windows grants these to all");
            assert_eq!(level(), expected, "{priority}");
        }
        set_realtime_priority(None).expect("Windows grants this to all");
        assert_eq!(level(), THREAD_PRIORITY_NORMAL);
    }

    #[test]
    fn a_ring_ends_the_sleep_that_goes_on_or_the_next_one() {
        let sleeper = Native::make().expect("Windows has timers");
        sleeper.ring();
        let hour = 3_600_000_000_000;
        assert!(sleeper.sleep(hour));
        std::thread::scope(|scope| {
            scope.spawn(|| sleeper.ring());
            assert!(sleeper.sleep(hour));
        });
        assert!(sleeper.sleep(1_000));
    }
}
