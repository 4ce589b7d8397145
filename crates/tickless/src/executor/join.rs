//! The handle of a task, which waits for its result or ends it early.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use async_task::Task;

use super::current;
use super::header::Header;
use super::job::caught;
use super::polled::{Ended, Outcome, Payload};
use crate::time::virtual_time::runtime;

/// A handle of a task; as a future it waits for the task's result.
///
/// Dropping the handle does not end the task, as in tokio and with threads.
#[must_use = "dropping it lets the task go on; `detach` says so"]
pub struct JoinHandle<T> {
    task: Option<Task<Outcome<T>, Header>>,
    /// The stand-in for the foreign waker that waits. `None` if a task of the executor waits.
    foreign: Option<Arc<Caught>>,
}

/// A foreign waker whose panics are caught here. The task that wakes it and that task's worker continue after a panic.
struct Caught(Option<Waker>);

impl Wake for Caught {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _panicked = caught(|| {
            if let Some(waker) = &self.0 {
                waker.wake_by_ref();
            }
        });
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let waker = self.0.take();
        let _panicked = caught(|| drop(waker));
    }
}

impl<T> JoinHandle<T> {
    pub(crate) const fn new(task: Task<Outcome<T>, Header>) -> Self {
        Self {
            task: Some(task),
            foreign: None,
        }
    }

    /// Returns the stand-in for a foreign waker. The stand-in is made when that waker is used for the first time.
    fn stand_in(&mut self, waker: &Waker) -> Waker {
        let is_it = |kept: &Arc<Caught>| kept.0.as_ref().is_some_and(|own| own.will_wake(waker));
        let kept = self.foreign.take().filter(is_it);
        let kept = kept.unwrap_or_else(|| Arc::new(Caught(Some(waker.clone()))));
        Waker::from(Arc::clone(self.foreign.insert(kept)))
    }

    /// Ends the task: at its next turn a worker drops the task's future instead of polling it. A task that waits is
    /// ended at once.
    ///
    /// A task that is being polled continues to its next `await`; if it finishes in this poll, its result counts. A job
    /// of [`spawn_blocking`](super::Executor::spawn_blocking) ends only if the job has not begun.
    pub fn abort(&self) {
        if let Some(task) = &self.task {
            let header = task.metadata();
            header.keeper().abort(header);
        }
    }

    /// Returns true if the task has finished, so that waiting for it ends at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(Task::is_finished)
    }

    /// Drops the handle. The task continues to run, and its result is dropped.
    pub fn detach(mut self) {
        self.let_go();
    }

    /// Returns the error that says why the task has no result.
    #[cold]
    fn error(&self, ended: Ended) -> JoinError {
        JoinError(match ended {
            Ended::Panicked(payload) => Why::Panicked(Mutex::new(payload)),
            Ended::Cancelled => Why::Cancelled,
        })
    }

    fn let_go(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    ///
    /// If the handle is polled again after it returned its result.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker();
        let stand_in = (!current::is_waker(waker)).then(|| self.stand_in(waker));
        let task = self
            .task
            .as_mut()
            .expect("the result of a task is given once");
        let mut context = Context::from_waker(stand_in.as_ref().unwrap_or(waker));
        let Poll::Ready(outcome) = Pin::new(task).poll(&mut context) else {
            return Poll::Pending;
        };
        if stand_in.is_some() {
            // The task may have stopped the clock of this thread, which is in the midst of a poll.
            runtime::sync();
        }
        let ended = outcome.into_result().map_err(|ended| self.error(ended));
        self.task = None;
        Poll::Ready(ended)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// The reason why a task has no result.
pub struct JoinError(Why);

enum Why {
    // A mutex, so that the error can be shared: the payload of a panic need not be.
    Panicked(Mutex<Payload>),
    Cancelled,
}

impl JoinError {
    /// Returns true if the task was [aborted](JoinHandle::abort), if its executor shut down, or if the executor had
    /// shut down before the task was spawned.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self.0, Why::Cancelled)
    }

    /// Returns true if the task panicked.
    #[must_use]
    pub const fn is_panic(&self) -> bool {
        matches!(self.0, Why::Panicked(_))
    }

    /// Returns the payload of the panic, for [`std::panic::resume_unwind`], or this error if the task did not panic.
    ///
    /// # Errors
    ///
    /// This error, if the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, Self> {
        match self.0 {
            Why::Panicked(payload) => {
                Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
            why => Err(Self(why)),
        }
    }

    fn message(&self) -> Option<String> {
        let Why::Panicked(payload) = &self.0 else {
            return None;
        };
        let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
        let text = payload.downcast_ref::<&str>().map(|text| (*text).into());
        text.or_else(|| payload.downcast_ref::<String>().cloned())
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JoinError({self})")
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0, self.message()) {
            (Why::Cancelled, _) => formatter.write_str("the task was cancelled"),
            (Why::Panicked(_), Some(message)) => write!(formatter, "the task panicked: {message}"),
            (Why::Panicked(_), None) => formatter.write_str("the task panicked"),
        }
    }
}

impl std::error::Error for JoinError {}
