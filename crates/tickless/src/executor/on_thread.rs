//! An executor without workers: it runs a future and the tasks that it spawns on the calling thread.
//!
//! This executor is for tests: the tasks run in one order, results need not be [`Send`], and the test harness captures
//! the printed text as that of the test.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::Poll;

use super::drawn::DrawnQueue;
use super::settings::Settings;
use super::shared::{Handle, Shared};
use super::spec::Spec;
use super::{context, spawn, work};
use crate::host::isolation::{self, locks::OwnedLocks};
use crate::time::virtual_time::runtime::{self, Others};
use crate::worker::Worker;

/// Runs the future of `body`, and then drops the unfinished tasks that it spawned. With a `seed`, the order of tasks
/// and timers is random, and the seed sets it.
///
/// # Panics
///
/// If the future panics, if the thread is a worker already, or if there is a `seed` and all tasks wait for ever.
#[track_caller]
pub(crate) fn run<F>(is_paused: bool, seed: Option<u64>, body: impl FnOnce() -> F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    let worker = match Worker::new() {
        Ok(worker) => worker,
        Err(error) => panic!("this thread cannot run an executor: {error}"),
    };
    let mut shared = Shared::new(1, Settings::default());
    if let Some(seed) = seed {
        shared.draw_by(seed);
    }
    let shared: Handle = Arc::new(shared);
    shared
        .runtime
        .set_others(Arc::downgrade(&shared) as Weak<dyn Others>);
    isolation::locks::register(Arc::downgrade(&shared) as Weak<dyn OwnedLocks>);
    let _first = shared.places[0].unparker.set(worker.unparker());
    let entered = context::enter(&shared);
    if is_paused {
        let _paused = shared.runtime.pause(true);
        runtime::sync();
    }
    let result = Rc::new(RefCell::new(None));
    let (of_task, executor) = (Rc::clone(&result), Arc::clone(&shared));
    let future = body();
    let root = async move {
        let mut future = pin!(future);
        let ended = poll_fn(|context| {
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
                Err(payload) => Poll::Ready(Err(payload)),
            }
        })
        .await;
        *of_task.borrow_mut() = Some(ended);
        executor.stop();
    };
    drop(spawn::spawn_local(
        Arc::clone(&shared),
        0,
        Spec::new(),
        Location::caller(),
        root,
    ));
    work::work(&worker, &shared, 0);
    shared.pool.close();
    shared.runtime.clock().close();
    drop(entered);
    match result.take() {
        Some(Ok(output)) => output,
        Some(Err(payload)) => resume_unwind(payload),
        None if shared.drawn.as_ref().is_some_and(DrawnQueue::is_deadlocked) => {
            panic!("deadlock: every task waits, and no timer is armed")
        }
        None => panic!("the executor was shut down before its future was ready"),
    }
}
