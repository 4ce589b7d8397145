//! The timers of a thread with its own event loop. The loop waits for a descriptor or a deadline, and calls a function
//! that fires due timers.

use std::ffi::c_int;
use std::os::fd::AsRawFd;

use tickless::Driver;

use crate::errno::{Errno, answer};
use crate::place::{Runner, free, make, next, own};

/// `struct tickless_loop`, whose contents are hidden from C.
#[derive(Debug)]
#[repr(C)]
pub struct Loop {
    opaque: [u8; 0],
}

/// Makes a loop for this thread.
///
/// # Safety
///
/// `made` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_loop_new(made: *mut *mut Loop) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        make(made, || {
            let driver = Driver::new()?;
            // No other thread may touch its timers, however late it is.
            driver.set_helped(false);
            Ok(Runner::Loop(driver))
        })
    }
}

/// Frees a loop that has no pending timer.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_loop_free(r#loop: *mut Loop) -> c_int {
    answer(|| free(r#loop))
}

/// Writes the deadline of the loop's first timer, if there is one, and returns 1 or 0.
///
/// # Safety
///
/// `at_ns` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_loop_next(r#loop: *mut Loop, at_ns: *mut u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { next(r#loop, at_ns) }
}

/// Returns the descriptor that is readable when a timer is due.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_loop_fd(r#loop: *mut Loop) -> c_int {
    answer(|| {
        let (_at_work, place) = own(r#loop)?;
        match &place.runner {
            Runner::Loop(driver) => Ok(driver.as_raw_fd()),
            Runner::Worker(_) => Err(Errno::INVAL),
        }
    })
}

/// Calls the callbacks of due timers, and returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_loop_turn(r#loop: *mut Loop) -> c_int {
    answer(|| {
        let (at_work, place) = own(r#loop)?;
        match &place.runner {
            Runner::Loop(driver) => place.turn(at_work, || driver.turn()),
            Runner::Worker(_) => Err(Errno::INVAL),
        }
    })
}
