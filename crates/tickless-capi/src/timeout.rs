//! Coarse timers, which fire up to an eighth of their time late and cost O(1) for any number of timers.

use std::ffi::{c_int, c_void};

use tickless::hrtimer::Clock;
use tickless::wheel::{Restart, WheelKind, WheelTimer};

use crate::errno::{Errno, answer};
use crate::structure::{MAGIC_OF_TIMEOUTS, RawCallback};
use crate::verbs::{self, Memory, Wanted, destroy, initialise, with};

/// The size of a [`Timeout`] in words, with spare words for later versions.
pub const TICKLESS_TIMEOUT_WORDS: usize = 28;

/// The memory of a coarse timer, `struct tickless_timeout`.
#[derive(Debug)]
#[repr(C)]
pub struct Timeout {
    /// The data of the library, hidden from C.
    opaque: [u64; TICKLESS_TIMEOUT_WORDS],
}

impl Memory for Timeout {
    const MAGIC: u64 = MAGIC_OF_TIMEOUTS;
}

/// A callback of coarse timers.
pub type TimeoutCallback =
    Option<unsafe extern "C-unwind" fn(timeout: *mut Timeout, argument: *mut c_void)>;

/// Makes an idle coarse timer.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure. The callback can be called with `timeout` and `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_init(
    timeout: *mut Timeout,
    callback: TimeoutCallback,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        let callback = callback.ok_or(Errno::INVAL)?;
        // SAFETY: both are pointers, and it is called with the address of a timeout.
        let callback = unsafe {
            std::mem::transmute::<unsafe extern "C-unwind" fn(*mut Timeout, *mut c_void), RawCallback>(
                callback,
            )
        };
        let wanted = Wanted {
            callback,
            argument,
            slack: 0,
            clock: Clock::Monotonic,
        };
        // SAFETY: the caller says so.
        unsafe {
            initialise(timeout, &wanted, |alarm| {
                // It stays on its thread.
                WheelTimer::with_kind(WheelKind::Local, move |_| {
                    alarm.ring();
                    Restart::No
                })
            })
        }
    })
}

/// Starts a coarse timer to fire after a duration. Returns 1 if it was pending.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_start(timeout: *mut Timeout, delay_ns: u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        with(timeout, |timeout, place| {
            verbs::start(timeout, place, delay_ns)
        })
    }
}

/// Starts a coarse timer to fire at a time of its clock. Returns 1 if it was pending.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_start_at(timeout: *mut Timeout, at_ns: u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        with(timeout, |timeout, place| {
            verbs::start_at(timeout, place, at_ns)
        })
    }
}

/// Starts a coarse timer with the duration of its last start.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_restart(timeout: *mut Timeout) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timeout, verbs::restart) }
}

/// Starts a coarse timer again, whole intervals after its last deadline, and writes the number of intervals that have
/// passed.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
/// `passed` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_forward(
    timeout: *mut Timeout,
    interval_ns: u64,
    passed: *mut u64,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { verbs::forward(timeout, interval_ns, passed) }
}

/// Cancels a coarse timer. Returns 1 if it was pending.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_cancel(timeout: *mut Timeout) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timeout, |timeout, place| Ok(verbs::cancel(timeout, place))) }
}

/// Cancels a coarse timer, unless its callback is running.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_try_cancel(timeout: *mut Timeout) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timeout, verbs::try_cancel) }
}

/// Cancels a coarse timer. Returns an error if the timer's own callback calls this function.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_cancel_sync(timeout: *mut Timeout) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timeout, verbs::cancel_sync) }
}

/// Returns 1 if a coarse timer is pending.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_pending(timeout: *mut Timeout) -> c_int {
    // SAFETY: the caller says so.
    unsafe { with(timeout, |timeout, _| Ok(verbs::pending(timeout))) }
}

/// Writes the time at which a coarse timer fires, or fired last.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
/// `at_ns` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_expires(timeout: *mut Timeout, at_ns: *mut u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { verbs::expires(timeout, at_ns) }
}

/// Cancels a coarse timer and destroys its structure.
///
/// # Safety
///
/// `timeout` is null, or the memory of a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timeout_destroy(timeout: *mut Timeout) -> c_int {
    // SAFETY: the caller says so.
    unsafe { destroy(timeout) }
}
