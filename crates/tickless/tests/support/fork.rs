//! Forks, for tests in processes of their own.
#![expect(unsafe_code, reason = "the test calls the system")]

use rustix::process::{Pid, WaitOptions, waitpid};

/// A handle of the parent for the child of a fork.
#[must_use]
pub(crate) struct Child(Pid);

impl Child {
    /// Waits for the end of the child, and checks that it ended by [`leave`].
    pub(crate) fn join(self) {
        let (_, status) = waitpid(Some(self.0), WaitOptions::empty())
            .expect("it is a child")
            .expect("it ended");
        assert_eq!(status.exit_status(), Some(0), "the child: {status:?}");
    }
}

/// Forks; returns `None` in the child.
pub(crate) fn fork_here() -> Option<Child> {
    // SAFETY: the child may do what a process with one thread may. What the standard library and the allocator need is
    // in order there: the C library sees to the allocator, and no other thread of these processes holds a lock of the
    // standard library, prints or starts a thread while this one forks.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system has no room for another process");
    Pid::from_raw(pid).map(Child)
}

/// Runs `body` in the child of a fork of this thread. A panic or a hang in the child is a failure in the parent.
pub(crate) fn fork(body: impl FnOnce()) -> Child {
    fork_without_patience(|| {
        let _patience = super::begin();
        body();
    })
}

/// Forks as [`fork`] does, for children that can start no thread: only the parent's patience ends a hang.
pub(crate) fn fork_without_patience(body: impl FnOnce()) -> Child {
    if let Some(child) = fork_here() {
        return child;
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    leave(i32::from(result.is_err()))
}

/// Ends the child without destructors and exit handlers, which only the parent must run.
pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: it has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Ends this child by a signal if it does not end by itself; a waiting thread would be an additional thread of the
/// child.
pub(crate) fn end_soon() {
    // SAFETY: it has no preconditions.
    unsafe { libc::alarm(20) };
}
