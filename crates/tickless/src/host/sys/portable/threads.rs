//! Threads by the means of the standard library.

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::{c_long, c_void};
use std::io;
use std::num::NonZeroU32;
use std::ptr;

pub(crate) use super::native::{nap, set_realtime_priority};

/// Ends the process. No child of a fork comes here: forks are not noticed.
pub(crate) fn end_child() -> ! {
    std::process::abort()
}

/// Function that is called at the end of a thread.
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

/// Registers `destructor` for the end of this thread; `false` if it ends already. The destructors of thread-locals that
/// were made later come before it, the others behind it.
///
/// `destructor` is the same at each call, takes any pointer, and must not unwind.
pub(crate) fn at_end_of_thread(destructor: Destructor) -> bool {
    END.try_with(|end| end.0.set(Some(destructor))).is_ok()
}

/// Number of times that the destructor of [`at_end_of_thread`] is called.
pub(crate) const ENDS: u32 = 1;

/// Does nothing: destructors of thread-locals tell, where the system calls them.
pub(crate) fn notice_exits() {}

/// Answers that destructors of thread-locals tell.
pub(crate) fn is_exiting() -> bool {
    false
}

/// Answers that it is not known how often a thread gave its CPU up.
pub(crate) fn times_given_up() -> Option<c_long> {
    None
}

/// Does nothing: forks are not noticed, and a child must not use timers.
pub(crate) fn around_forks(
    _prepare: extern "C" fn(),
    _parent: Option<unsafe extern "C" fn()>,
    _child: extern "C" fn(),
) {
}

/// Answers that it is not known which CPU executes the thread.
pub(crate) fn cpu() -> Option<u32> {
    None
}

/// Answers that the system's number of the thread is not known.
pub(crate) fn thread_id() -> Option<NonZeroU32> {
    None
}

/// Does nothing: there is no slack that could be removed.
pub(crate) fn remove_timer_slack() {}

/// Answers that threads cannot be pinned.
pub(crate) fn pin(_cpus: impl IntoIterator<Item = u32>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Answers that no limit is known.
pub(crate) fn realtime_limit() -> Option<u64> {
    None
}

/// Answers that it is not known where a thread may run.
pub(crate) fn allowed_cpus() -> Option<fn(u32) -> bool> {
    None
}

/// An account of how long a thread waited for a CPU: there is none.
#[derive(Debug)]
pub(crate) struct WaitAccount(Infallible);

impl WaitAccount {
    /// Answers that there is none.
    pub(crate) fn open() -> Option<Self> {
        None
    }

    pub(crate) fn waited(&self) -> Option<u64> {
        match self.0 {}
    }
}
