//! Thread-local pointer to the worker that runs on this thread: a task reaches its worker through it, without a handle.
//!
//! The header of a task leads to its executor too, but the thread then has to follow a handle and look up the worker.
//! This pointer leads directly to the worker that polls the task. The thread uses the pointer when the polled task
//! waits, and when it wakes another task.
//!
//! # Safety
//!
//! The *Worker Invariant*: the pointer in `OWN` was borrowed for a call of [`work_as`] that has not ended. When that
//! call ends, also by a panic, it restores the previous pointer.
#![expect(
    unsafe_code,
    reason = "tasks stand in cells of async-task (decision 28)"
)]

use std::cell::Cell;
use std::mem;
use std::ptr::NonNull;
use std::task::Waker;

use super::header::{Job, OwnHeader};

/// The services of a worker for the tasks of its executor, called on the worker's own thread.
pub(crate) trait OwnWorker {
    /// Queues a task that is new or was woken.
    fn queue_woken(&self, job: Job);

    /// Puts the task of `header` to sleep. The worker polls that task, which waits for something and did not yield. The
    /// waker of the task is `waker`.
    fn sleep(&self, header: &OwnHeader, waker: &Waker);
}

/// A worker, with the number of its executor.
#[derive(Clone, Copy)]
struct Own {
    executor: u64,
    worker: NonNull<dyn OwnWorker>,
}

thread_local! {
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

/// A guard that restores the previous worker of the thread when it is dropped, also by a panic.
struct Leaves(Option<Own>);

impl Drop for Leaves {
    fn drop(&mut self) {
        OWN.set(self.0);
    }
}

/// Executes `body` with this thread as `worker` of the executor.
pub(crate) fn work_as<R>(executor: u64, worker: &dyn OwnWorker, body: impl FnOnce() -> R) -> R {
    let worker = NonNull::from(worker);
    // SAFETY: the two types differ by the lifetime of what is pointed to alone, of which `with` takes care.
    let worker =
        unsafe { mem::transmute::<NonNull<dyn OwnWorker + '_>, NonNull<dyn OwnWorker>>(worker) };
    let _leaves = Leaves(OWN.replace(Some(Own { executor, worker })));
    body()
}

/// Calls `body` with this thread's worker and `item`, if this thread is a worker of the executor.
///
/// # Errors
///
/// Returns the item if this thread is no worker of the executor.
#[inline(always)]
pub(crate) fn with<T, R>(
    executor: u64,
    item: T,
    body: impl FnOnce(&dyn OwnWorker, T) -> R,
) -> Result<R, T> {
    match OWN.get() {
        Some(own) if own.executor == executor => Ok(own.ask(|worker| body(worker, item))),
        _ => Err(item),
    }
}

/// Calls `body` with this thread's worker for the task that the worker polls, if this thread is a worker.
#[inline(always)]
pub(crate) fn polls(body: impl FnOnce(&dyn OwnWorker)) {
    if let Some(own) = OWN.get() {
        own.ask(body);
    }
}

impl Own {
    #[inline(always)]
    fn ask<R>(self, body: impl FnOnce(&dyn OwnWorker) -> R) -> R {
        // SAFETY: Worker Invariant: `self` was just found there, so that call is below this one on the stack, and ends
        // after `body`, from which no reference comes back.
        body(unsafe { self.worker.as_ref() })
    }
}
