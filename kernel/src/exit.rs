//! The result of a run, which the emulator passes on as an exit code. No code is 0, because a machine that resets
//! itself ends with 0.

use core::fmt;

use crate::arch;
use crate::serial::last_line;

/// The result that a run passes to the emulator.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Code {
    Passed = 33,
    Failed = 35,
    Panicked = 37,
    /// The limit of the run's guest time passed.
    Wedged = 39,
    /// The machine reported an exception.
    Fault = 41,
    /// No test has the requested name, or a CPU did not start.
    Unusable = 43,
}

/// Ends a run that failed, and prints the reason.
pub(crate) fn end(code: Code, reason: fmt::Arguments<'_>) -> ! {
    last_line(reason);
    arch::exit(code as u32)
}
