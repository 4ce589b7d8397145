//! What `#[tickless::test]` and `#[tickless::main]` call.

use std::future::Future;

use crate::Executor;
use crate::executor::on_thread;

/// Runs a test: on this thread, unless it asks for several workers.
#[track_caller]
pub fn test<F>(is_paused: bool, workers: Option<usize>, body: fn() -> F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    match workers {
        None | Some(1) => on_thread::run(is_paused, body),
        Some(workers) => several(Some(workers), body),
    }
}

/// Runs a program.
#[track_caller]
pub fn main<F>(is_paused: bool, workers: Option<usize>, body: fn() -> F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    if is_paused {
        return on_thread::run(true, body);
    }
    several(workers, body)
}

/// Runs a future on this thread while so many workers run what it spawns.
#[track_caller]
fn several<F: Future>(workers: Option<usize>, body: fn() -> F) -> F::Output {
    let mut builder = Executor::builder();
    if let Some(workers) = workers {
        builder = builder.workers(workers);
    }
    match builder.build() {
        Ok(executor) => executor.block_on(body()),
        Err(error) => panic!("the executor cannot be started: {error}"),
    }
}
