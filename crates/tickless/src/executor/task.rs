//! Functions that a task calls to spawn others, and the settings of tasks.
//!
//! The functions here work where an executor runs the code: in its tasks, in what its
//! [`block_on`](crate::Executor::block_on) runs, and in its blocking jobs.

use std::future::Future;
use std::panic::Location;

pub use super::deadline::{Bandwidth, Deadline, DeadlineError, Rejected};
pub use super::join::{JoinError, JoinHandle};
use super::shared::Handle;
pub use super::spec::{Slice, Spec, Weight};
use super::{context, current, spawn as spawning};

#[track_caller]
fn executor() -> Handle {
    context::current().expect(
        "this is called where no executor runs: in one of its tasks, or in `Executor::block_on`",
    )
}

/// Spawns a task on the executor that runs this code: see [`Executor::spawn`](crate::Executor::spawn).
///
/// # Panics
///
/// Where no executor runs the code.
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
/// Where no executor runs the code.
#[track_caller]
pub fn spawn_with<F>(spec: impl Into<Spec>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawning::spawn(executor(), spec.into(), Location::caller(), future)
}

/// Spawns a task with a [`Deadline`], or returns an error if it cannot be kept: see
/// [`Executor::try_spawn_with`](crate::Executor::try_spawn_with).
///
/// # Errors
///
/// When no worker has room for it.
///
/// # Panics
///
/// Where no executor runs the code.
#[track_caller]
pub fn try_spawn_with<F>(
    spec: impl Into<Spec>,
    future: F,
) -> Result<JoinHandle<F::Output>, Rejected>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let spawned = spawning::spawn(executor(), spec.into(), Location::caller(), future);
    spawned.rejected().map_or(Ok(spawned), Err)
}

/// Spawns a task that need not be [`Send`]: only the worker that runs the calling task polls it.
///
/// The spawning task itself may move to another worker at its next `await`.
///
/// # Panics
///
/// Where no worker runs the code: in `block_on` and in blocking jobs too.
#[track_caller]
pub fn spawn_local<F>(spec: impl Into<Spec>, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let executor = executor();
    let worker = current::worker_of(executor.id)
        .expect("a local task belongs to the worker that spawns it, and this thread is none");
    spawning::spawn_local(executor, worker, spec.into(), Location::caller(), future)
}

/// Runs `function` on a thread of the pool: see [`Executor::spawn_blocking`](crate::Executor::spawn_blocking).
///
/// # Panics
///
/// Where no executor runs the code.
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
