//! The spawning of a task: its cell, its worker and its first place in a queue.
#![expect(
    unsafe_code,
    reason = "tasks stand in cells of async-task (decision 28)"
)]

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use async_task::Builder;

use super::classes::class_of;
use super::current;
use super::header::{Entity, Header, Job, Keeper, Origin, OwnHeader};
use super::job::discard;
use super::join::JoinHandle;
use super::own;
use super::polled::Polled;
use super::shared::Handle;
use super::spec::Spec;

/// Returns whether this thread is a worker of `executor`.
pub(crate) fn is_on(executor: &Handle) -> bool {
    current::worker_of(executor.id).is_some()
}

/// Spawns a task on `executor`.
pub(crate) fn spawn<F>(
    executor: Handle,
    spec: Spec,
    location: &'static Location<'static>,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let is_admitted = executor.admit();
    let home = executor.home();
    let is_taken = is_admitted && home.is_some();
    let header = header(executor, home.unwrap_or(0), false, spec, location);
    let (job, task) = Builder::new()
        .metadata(header)
        .spawn(|header| in_cell(header, future), queue_woken);
    begin(job, is_taken);
    JoinHandle::new(task)
}

/// Spawns a task on this thread, which is a worker. No other worker polls the task.
pub(crate) fn spawn_local<F>(
    executor: Handle,
    worker: usize,
    spec: Spec,
    location: &'static Location<'static>,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let is_taken = executor.admit() && !executor.exits_here();
    executor.places[worker].add_local();
    let header = header(executor, worker, true, spec, location);
    let (job, task) = Builder::new()
        .metadata(header)
        .spawn_local(|header| in_cell(header, future), queue_woken);
    begin(job, is_taken);
    JoinHandle::new(task)
}

/// Runs `function` on a thread of the pool.
pub(crate) fn spawn_blocking<F, R>(
    executor: Handle,
    location: &'static Location<'static>,
    function: F,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let is_taken = executor.admit();
    let header = header(executor, 0, false, Spec::new(), location);
    let (job, task) = Builder::new()
        .metadata(header)
        .spawn(|header| in_cell(header, async { function() }), push);
    if is_taken {
        task.metadata().keeper().push(job);
    } else {
        discard(job);
    }
    JoinHandle::new(task)
}

/// Enqueues the task that a waker woke. The function captures nothing, so that `async-task` keeps neither a waker nor
/// the cell alive for the call.
#[inline]
fn queue_woken(job: Job) {
    let executor = job.metadata().executor;
    if let Err(job) = own::with(executor, job, |own, job| own.queue_woken(job)) {
        with_keeper(job, |keeper, job| keeper.queue_woken(job));
    }
}

/// Works as [`queue_woken`], for a job of the pool.
fn push(job: Job) {
    with_keeper(job, |keeper, job| keeper.push(job));
}

/// Passes the task to `queue`, and keeps the executor alive during the call. The task may have finished by the end of
/// the call, and its handle may have been dropped.
#[inline(never)]
fn with_keeper(job: Job, queue: fn(&dyn Keeper, Job)) {
    let keeper = Arc::clone(job.metadata().keeper());
    queue(&*keeper, job);
}

#[inline(always)]
fn header(
    executor: Handle,
    worker: usize,
    is_local: bool,
    spec: Spec,
    location: &'static Location<'static>,
) -> Header {
    let slice = spec.slice.unwrap_or(executor.settings.slice);
    let request = slice.request();
    let entity = Entity::pinned_if(is_local, spec.weight, request);
    let class = class_of(request.length().as_nanos());
    let name = spec.name;
    let origin = Origin { name, location };
    Header::new(executor, worker, is_local, entity, class, origin)
}

/// Returns the future for the cell of `header`.
#[inline(always)]
fn in_cell<F>(header: &Header, future: F) -> Polled<F> {
    // SAFETY: it becomes a part of the future, which `async-task` puts into the cell of the header.
    let header = unsafe { OwnHeader::new(header) };
    Polled::new(future, header)
}

fn begin(job: Job, is_taken: bool) {
    if is_taken {
        queue_woken(job);
    } else {
        discard(job);
    }
}
