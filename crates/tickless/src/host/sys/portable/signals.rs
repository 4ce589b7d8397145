//! Timers that send a signal, on systems without such timers: making one fails.

use std::ffi::{c_int, c_void};
use std::io;

use crate::host::sys::Until;

/// A timer: there is none.
pub(crate) type Timer = *mut c_void;

/// Function that would be called when the signal comes.
pub(crate) type Handler = extern "C" fn(c_int);

/// Answers that there are no such signals.
pub(crate) fn install(_handler: Handler) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: no signal comes.
pub(crate) fn unblock() {}

/// Answers that there are no such timers.
pub(crate) fn create() -> io::Result<Timer> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: there are no such timers.
pub(crate) fn delete(_timer: Timer) {}

/// Does nothing: there are no such timers.
pub(crate) fn set(_timer: Timer, _until: Until) {}
