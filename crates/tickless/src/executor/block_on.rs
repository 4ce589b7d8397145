//! A thread outside of the executor that waits for a future while the workers run tasks.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::current;
use crate::host::thread::{Thread, ThreadBase, now_lower, turn_taken_by_this_thread, with_thread};
use crate::host::{device, turn, wake};
use crate::time::budget::refilled;
use crate::time::virtual_time::runtime::{self, Runtime, Sleeper};
use crate::worker::{StartError, Worker, assert_outside_of_callbacks};

/// The waker of a thread that is no worker.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` on this thread, while the workers of `runtime` run their tasks.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F, runtime: &Arc<Runtime>) -> F::Output {
    if with_thread(Thread::is_at_its_end) {
        // An exit handler cannot know whether a callback or a task called `exit`. In a callback each poll of a sleep
        // wakes the task, and all else that wakes it comes from other threads.
        let base = with_thread(Thread::base).filter(|_| turn_taken_by_this_thread().is_none());
        return wait(future, base, runtime);
    }
    assert_outside_of_callbacks();
    assert!(
        !current::polls(),
        "a task cannot block its worker on a future: `await` it, or block in `spawn_blocking`"
    );
    match Worker::new() {
        Ok(worker) if runtime.has_one_worker() => {
            let sleeper = Rises(Sleeper::new(Arc::clone(runtime), worker.waker().clone()));
            let waker = Waker::from(Arc::clone(&sleeper.0));
            worker.block_on_as(future, &waker, Some(&sleeper.0))
        }
        Ok(worker) => worker.block_on(future),
        // A worker or a driver of the caller's, which is not at hand, or a thread without timers of its own.
        Err(StartError::AlreadyTaken) => wait(future, with_thread(|thread| thread.base()), runtime),
        Err(_) => wait(future, None, runtime),
    }
}

/// A thread that counts as awake until its future is ready or panics.
struct Rises(Arc<Sleeper>);

impl Drop for Rises {
    fn drop(&mut self) {
        self.0.ends();
    }
}

/// Polls until the future is ready. Meanwhile takes the thread's turns, if the thread itself fires the timers of
/// `base`.
fn wait<F: Future>(
    future: F,
    base: Option<&'static ThreadBase>,
    runtime: &Arc<Runtime>,
) -> F::Output {
    let unpark = Waker::from(Arc::new(Unpark(std::thread::current())));
    let sleeper = Rises(Sleeper::new(Arc::clone(runtime), unpark));
    let mut future = pin!(future);
    let waker = Waker::from(Arc::clone(&sleeper.0));
    let mut context = Context::from_waker(&waker);
    loop {
        sleeper.0.begins();
        if let Poll::Ready(output) = refilled(|| future.as_mut().poll(&mut context)) {
            return output;
        }
        if !sleeper.0.rests() || wake::is_virtual() && runtime::pass_time_here(Some(&sleeper.0)) {
            continue;
        }
        let Some(base) = base else {
            std::thread::park();
            continue;
        };
        let now = now_lower();
        let due = device::due(base);
        if due > now {
            let left = due.saturating_since(now).as_nanos();
            std::thread::park_timeout(Duration::from_nanos(left));
        }
        let now = now_lower();
        if device::due(base) <= now {
            let _more = turn::run_own(base, now);
        }
    }
}
