//! A thread that waits for a future while the workers of an executor run its tasks.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::current;
use crate::host::thread::{
    Thread, ThreadBase, at_earliest, turn_taken_by_this_thread, with_thread,
};
use crate::host::{device, turn};
use crate::worker::{StartError, Worker, assert_outside_of_callbacks};

/// Wakes a thread that is no worker.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    if with_thread(Thread::is_at_its_end) {
        // An exit handler cannot know whether a callback or a task called `exit`. In a callback each poll of a sleep
        // wakes the task, and all else that wakes it comes from other threads.
        let base = with_thread(Thread::base).filter(|_| turn_taken_by_this_thread().is_none());
        return wait(future, base);
    }
    assert_outside_of_callbacks();
    assert!(
        !current::polls(),
        "a task cannot block its worker on a future: `await` it, or block in `spawn_blocking`"
    );
    match Worker::new() {
        Ok(worker) => worker.block_on(future),
        // A worker or a driver of the caller's, which is not at hand, or a thread without timers of its own.
        Err(StartError::AlreadyTaken) => wait(future, with_thread(|thread| thread.base())),
        Err(_) => wait(future, None),
    }
}

/// Polls until the future is ready, and takes the thread's turns meanwhile if the timers of `base` are its own to run.
fn wait<F: Future>(future: F, base: Option<&'static ThreadBase>) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let Some(base) = base else {
            std::thread::park();
            continue;
        };
        let now = at_earliest();
        let due = device::due(base);
        if due > now {
            let left = due.saturating_since(now).as_nanos();
            std::thread::park_timeout(Duration::from_nanos(left));
        }
        let now = at_earliest();
        if device::due(base) <= now {
            let _more = turn::run_own(base, now);
        }
    }
}
