//! Functions by which a task spawns other tasks, and the settings of tasks.
//!
//! The functions here work in code that an executor runs: in its tasks, in the future of its
//! [`block_on`](crate::Executor::block_on), and in its blocking jobs.

use std::future::Future;
use std::panic::Location;

pub use super::join::{JoinError, JoinHandle};
use super::shared::Handle;
pub use super::spec::{Slice, Spec, Weight};
use super::{context, current, spawn as spawning};

#[track_caller]
fn executor() -> Handle {
    context::current().expect(
        "no executor runs this code: call this function in a task or a blocking job of an executor or in \
         `Executor::block_on`, or use the methods of `Executor`",
    )
}

/// Spawns a task on the executor that runs this code: see [`Executor::spawn`](crate::Executor::spawn).
///
/// # Panics
///
/// If no executor runs the calling code.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawning::spawn(executor(), Spec::new(), Location::caller(), future)
}

/// Spawns a task with settings of its own: see [`Executor::spawn_with`](crate::Executor::spawn_with).
///
/// # Panics
///
/// If no executor runs the calling code.
#[track_caller]
pub fn spawn_with<F>(spec: impl Into<Spec>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawning::spawn(executor(), spec.into(), Location::caller(), future)
}

/// Spawns a task that need not be [`Send`]: only the worker that runs the calling task polls it.
///
/// The spawning task itself may move to another worker at its next `await`.
///
/// # Panics
///
/// If no worker runs the calling code; `block_on` and blocking jobs do not run on a worker.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_local_with(Spec::new(), future)
}

/// Spawns a task with settings of its own that need not be [`Send`]: see [`spawn_local`].
///
/// # Panics
///
/// If no worker runs the calling code; `block_on` and blocking jobs do not run on a worker.
#[track_caller]
pub fn spawn_local_with<F>(spec: impl Into<Spec>, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let executor = executor();
    let worker = current::worker_of(executor.id)
        .expect(
            "no worker runs this code: call `spawn_local` in a task of the executor, not in its `block_on` or in a \
             blocking job",
        );
    spawning::spawn_local(executor, worker, spec.into(), Location::caller(), future)
}

/// Runs `function` on a thread of the pool: see [`Executor::spawn_blocking`](crate::Executor::spawn_blocking).
///
/// # Panics
///
/// If no executor runs the calling code.
#[track_caller]
pub fn spawn_blocking<F, R>(function: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    spawning::spawn_blocking(executor(), Location::caller(), function)
}

#[doc(inline)]
pub use super::coop::yield_now;
