//! A task in the hand of a thread: polled, or ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::current;
use super::header::Job;

/// Ends a task that no worker will poll. Its future is foreign, and belongs to its worker's thread if it is local.
pub(crate) fn discard(job: Job) {
    if job.metadata().is_local && !current::is_worker() {
        // Its thread has ended, and no other may touch it.
        std::mem::forget(job);
        return;
    }
    job.metadata().listing.mark_aborted();
    run(job);
}

/// Polls a task.
#[inline]
pub(crate) fn run(job: Job) {
    // What panics here is a waker of a task that waits for this one, or its executor: foreign code.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job.run())) {
        std::mem::forget(payload);
    }
}
