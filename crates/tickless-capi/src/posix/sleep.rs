//! Sleeps on a POSIX clock.

use std::cell::Cell;
use std::ffi::c_int;

use crate::errno::{Errno, answer};
use crate::posix::times::{clock, nanos};

thread_local! {
    /// True if the timer slack of this thread was set.
    static IS_EXACT: Cell<bool> = const { Cell::new(false) };
}

/// Sets the timer slack of this thread to a nanosecond, at the first call. With the default slack Linux adds 50 µs to
/// each sleep.
pub fn be_exact() {
    if !IS_EXACT.replace(true) {
        // SAFETY: no pointers. Sleeps are less exact if it fails.
        let _result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    }
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
        be_exact();
        // The call itself, and not the function of the C library: that may end the thread in the middle of a frame
        // that catches panics.
        // SAFETY: it reads one and may write the other.
        let result =
            unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock_id, flags, request, remain) };
        if result == 0 {
            return Ok(0);
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => Err(Errno::INTR),
            error => Err(Errno::of_system(error.unwrap_or(0))),
        }
    })
}
