//! The results of calls: a number that is not negative for success, or the negative of a number of `errno.h`.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tickless::StartError;

/// A number of `errno.h`, with the value of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(c_int);

#[cfg(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "sparc",
    target_arch = "sparc64"
))]
compile_error!("the numbers of errno.h differ on this architecture");

impl Errno {
    /// The timer, loop or worker belongs to another thread.
    pub(crate) const PERM: Self = Self(1);
    /// A signal handler was called while the caller slept.
    pub(crate) const INTR: Self = Self(4);
    /// No memory, thread or timer is left. Or the call was made in a signal handler that interrupted another call.
    pub(crate) const AGAIN: Self = Self(11);
    /// The system has no memory.
    pub(crate) const NOMEM: Self = Self(12);
    /// The object is still in use.
    pub(crate) const BUSY: Self = Self(16);
    /// The thread has a loop or a worker already.
    pub(crate) const EXIST: Self = Self(17);
    /// An argument is not valid.
    pub(crate) const INVAL: Self = Self(22);
    /// The process has too many threads with timers.
    pub(crate) const NOSPC: Self = Self(28);
    /// The call would wait for the callback that makes the call.
    pub(crate) const DEADLK: Self = Self(35);
    /// The time is beyond the end of the clock.
    pub(crate) const OVERFLOW: Self = Self(75);
    /// The library has no timers on this clock.
    pub(crate) const NOTSUP: Self = Self(95);
    /// The library itself failed.
    pub(crate) const NOTRECOVERABLE: Self = Self(131);
}

impl Errno {
    /// Makes an error from the positive error number of a system call that failed.
    pub(crate) fn of_system(number: c_int) -> Self {
        if number > 0 {
            Self(number)
        } else {
            Self::NOTRECOVERABLE
        }
    }
}

impl From<StartError> for Errno {
    fn from(error: StartError) -> Self {
        match error {
            StartError::AlreadyTaken => Self::EXIST,
            StartError::NoPlace => Self::NOSPC,
            StartError::Os(error) => error.raw_os_error().map_or(Self::NOTRECOVERABLE, Self),
            _ => Self::NOTRECOVERABLE,
        }
    }
}

/// Calls `call`, and converts its result or its panic into the return value of a C function.
pub(crate) fn answer(call: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    // What a panic leaves half done are cells of one thread; the guards in `place` put them right.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(Errno(number))) => -number,
        Err(payload) => {
            // Its destructor may panic again.
            std::mem::forget(payload);
            let Errno(number) = Errno::NOTRECOVERABLE;
            -number
        }
    }
}

/// Converts `count` to the result of a call.
pub(crate) fn counted(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Errno, answer};

    #[test]
    fn a_panic_is_an_answer() {
        assert_eq!(answer(|| panic!("of a test")), -131);
        assert_eq!(answer(|| Err(Errno::INVAL)), -22);
        assert_eq!(answer(|| Ok(3)), 3);
    }
}
