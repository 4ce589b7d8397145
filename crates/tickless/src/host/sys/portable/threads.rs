//! The services for threads that the standard library provides.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::{c_long, c_void};
use std::io;
use std::num::NonZeroU32;
use std::ptr;

pub(crate) use super::native::{nap, set_realtime_priority};

/// Ends the process. No child of a fork calls this, because forks are not noticed.
pub(crate) fn end_child() -> ! {
    std::process::abort()
}

/// The function that is called at the end of a thread.
type Destructor = unsafe extern "C" fn(*mut c_void);

/// Calls the destructor of a thread among those of its thread-locals.
struct End(Cell<Option<Destructor>>);

thread_local! {
    static END: End = const { End(Cell::new(None)) };
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(destructor) = self.0.take() {
            // SAFETY: `at_end_of_thread` is given functions that take any pointer and may be called on any thread.
            unsafe { destructor(ptr::null_mut()) };
        }
    }
}

/// Registers `destructor` for the end of this thread; `false` if the thread is ending already. The destructors of
/// thread-locals that were made later are called before `destructor`, the others after it.
///
/// Each call has to pass the same `destructor`. It accepts any pointer, and must not unwind.
pub(crate) fn at_end_of_thread(destructor: Destructor) -> bool {
    END.try_with(|end| end.0.set(Some(destructor))).is_ok()
}

/// The number of times that the destructor of [`at_end_of_thread`] is called.
pub(crate) const ENDS: u32 = 1;

/// Does nothing: destructors of thread-locals detect the exit, if the system calls them.
pub(crate) fn notice_exits() {}

/// Returns false, because destructors of thread-locals detect the exit.
pub(crate) fn is_exiting() -> bool {
    false
}

/// Returns `None`, because the count is not known on this system.
pub(crate) fn times_given_up() -> Option<c_long> {
    None
}

/// Does nothing, because forks are not noticed. A child must not use timers.
pub(crate) fn around_forks(
    _prepare: extern "C" fn(),
    _parent: Option<unsafe extern "C" fn()>,
    _child: extern "C" fn(),
) {
}

/// Returns `None`, because the CPU of a thread is not known.
pub(crate) fn cpu() -> Option<u32> {
    None
}

/// Returns `None`, because the system's number of the thread is not known.
pub(crate) fn thread_id() -> Option<NonZeroU32> {
    None
}

/// Does nothing, because there is no slack that could be removed.
pub(crate) fn remove_timer_slack() {}

/// Returns an error, because threads cannot be pinned.
pub(crate) fn pin(_cpus: impl IntoIterator<Item = u32>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns `None`, because no limit is known.
pub(crate) fn realtime_limit() -> Option<u64> {
    None
}

/// Returns `None`, because the permitted CPUs of a thread are not known.
pub(crate) fn allowed_cpus() -> Option<fn(u32) -> bool> {
    None
}

/// An account of the time that a thread waited for a CPU; the type has no values.
#[derive(Debug)]
pub(crate) struct WaitAccount(Infallible);

impl WaitAccount {
    /// Returns `None`, because there is no account.
    pub(crate) fn open() -> Option<Self> {
        None
    }

    pub(crate) fn waited(&self) -> Option<u64> {
        match self.0 {}
    }
}
