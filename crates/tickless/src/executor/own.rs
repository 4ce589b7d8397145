//! The worker that a thread is, as the tasks know it that it polls and wakes.
//!
//! A task finds its executor by its header, with a handle to be followed and a worker to be looked up. The worker that
//! polls it is at hand: what it has to do for the task when it waits, and for another one that it wakes, begins here.
//!
//! # Safety
//!
//! The *Worker Invariant*: the pointer in `OWN` was borrowed for a call of [`work_as`] that goes on, and that puts the
//! previous one back when it ends, by a panic too.

use std::cell::Cell;
use std::mem;
use std::ptr::NonNull;
use std::task::Waker;

use super::header::{Job, OwnHeader};

/// Services of a worker for the tasks of its executor, called by its own thread.
pub(crate) trait OwnWorker {
    /// Queues a task that is new or was woken.
    fn schedule(&self, job: Job);

    /// The task of that header, which the worker polls, waits for something, and did not give its turn away. Its waker
    /// is `waker`.
    fn sleep(&self, header: &OwnHeader, waker: &Waker);
}

/// The worker of an executor, by number.
#[derive(Clone, Copy)]
struct Own {
    executor: u64,
    worker: NonNull<dyn OwnWorker>,
}

thread_local! {
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

/// Puts back what was before, also when it is dropped by a panic.
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
/// On other threads the item comes back.
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

/// Calls `body` with this thread's worker, for the task that it polls, if this thread is a worker.
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
        // behind `body`, from which no reference comes back.
        body(unsafe { self.worker.as_ref() })
    }
}
