//! Timers that send a signal, on systems without such timers: making one fails.

use std::ffi::{c_int, c_void};
use std::io;

use crate::host::sys::Until;

/// The type of a timer, of which there is none.
pub(crate) type Timer = *mut c_void;

/// The function that would be called when the signal arrives.
pub(crate) type Handler = extern "C" fn(c_int);

/// Returns an error: there are no such signals.
pub(crate) fn install(_handler: Handler) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing, because no signal arrives.
pub(crate) fn unblock() {}

/// Returns an error: there are no such timers.
pub(crate) fn create() -> io::Result<Timer> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: there are no such timers.
pub(crate) fn delete(_timer: Timer) {}

/// Does nothing: there are no such timers.
pub(crate) fn set(_timer: Timer, _until: Until) {}
