//! A task that a thread took from a queue, to poll it or to end it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::current;
use super::header::{Header, Job};

/// Returns true if this thread may drop the future of a task. The future of a local task must be dropped on the thread
/// of its worker.
pub(crate) fn ends_here(header: &Header) -> bool {
    !header.is_local || current::worker_of(header.executor) == Some(header.worker())
}

/// Ends a task that no worker will poll. Called on a thread on which the task [may end](ends_here).
pub(crate) fn discard(job: Job) {
    if !ends_here(job.metadata()) {
        debug_assert!(false, "a local task ends on the thread of its worker");
        // Leaked rather than dropped on a thread that its future never agreed to.
        std::mem::forget(job);
        return;
    }
    job.metadata().listing.mark_aborted();
    run(job);
}

/// Polls a task.
#[inline]
pub(crate) fn run(job: Job) {
    // What panics here is a waker of a task that waits for this one, or its executor.
    let _panicked = caught(|| {
        job.run();
    });
}

/// Calls foreign code. Returns true if the code panicked; the panic hook has reported the panic.
#[inline]
pub(crate) fn caught(foreign: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) else {
        return false;
    };
    // Its destructor is foreign too.
    std::mem::forget(payload);
    true
}
