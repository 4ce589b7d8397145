//! Sleeps on a POSIX clock.

use std::ffi::{c_int, c_long};

use crate::errno::{Errno, answer};
use crate::posix::times::{clock, nanos};

/// The timer slack of a thread that sleeps exactly, in nanoseconds. Zero would set the default slack.
const EXACT: u64 = 1;

/// Calls `sleep` with a timer slack of a nanosecond. With the default slack Linux adds 50 µs to each sleep. The thread,
/// and the threads and processes that it starts afterwards, have the former slack again.
///
/// A sleep of a `duration` that is shorter than the slack keeps the slack: the thread would not leave the CPU, and
/// would spend more processor time in each sleep.
#[inline]
pub fn sleep_exactly<R>(duration: Option<u64>, sleep: impl FnOnce() -> R) -> R {
    // None if the process may not ask.
    let slack = u64::try_from(control(libc::PR_GET_TIMERSLACK, 0)).unwrap_or(EXACT);
    if slack <= EXACT || duration.is_some_and(|nanos| nanos < slack) {
        return sleep();
    }
    // Sleeps are less exact if it fails.
    control(libc::PR_SET_TIMERSLACK, EXACT);
    let result = sleep();
    control(libc::PR_SET_TIMERSLACK, slack);
    result
}

/// Calls `prctl`, with all arguments that the system takes.
fn control(option: c_int, argument: u64) -> c_long {
    // The call itself: the result of the C library's function is an `int`, too short for a slack of seconds.
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_prctl, option, argument, 0_u64, 0_u64, 0_u64) }
}

/// Sleeps for a duration, or until a time. If a signal handler ends the sleep, writes the rest of the duration.
///
/// # Safety
///
/// `request` is null or may be read; `remain` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_clock_nanosleep(
    clock_id: libc::clockid_t,
    flags: c_int,
    request: *const libc::timespec,
    remain: *mut libc::timespec,
) -> c_int {
    answer(|| {
        clock(clock_id)?;
        // SAFETY: the caller says so.
        let time = unsafe { request.as_ref() }.ok_or(Errno::INVAL)?;
        nanos(time)?;
        let result = sleep_exactly(None, || {
            // The call itself, and not the function of the C library: that may end the thread in the middle of a frame
            // that catches panics.
            // SAFETY: it reads one and may write the other.
            let result = unsafe {
                libc::syscall(libc::SYS_clock_nanosleep, clock_id, flags, request, remain)
            };
            (result != 0).then(|| std::io::Error::last_os_error().raw_os_error())
        });
        match result {
            None => Ok(0),
            Some(Some(libc::EINTR)) => Err(Errno::INTR),
            Some(error) => Err(Errno::of_system(error.unwrap_or(0))),
        }
    })
}
