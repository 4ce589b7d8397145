//! The future in a task's cell: the user's future, and around it the work of a worker before and after each poll.

use std::any::Any;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::current;
use super::header::{Header, Keeper, OwnHeader};
use super::job::caught;
use super::own;
use crate::time::budget::refilled;

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// The reasons why a task ended without a result.
pub(crate) enum Ended {
    /// The task panicked.
    Panicked(Payload),
    /// The handle or the executor of the task ended it.
    Cancelled,
}

/// The result of a task. A panic of its destructor is caught in its drop, as with the future.
///
/// If no handle took the result, the thread that releases the task last drops the result. The drop happens in
/// `async-task`, which aborts the process on a panic.
pub(crate) struct Outcome<T> {
    result: Option<Result<T, Ended>>,
    /// The keeper, which counts the panic. `None` if the result has no destructor of the user's.
    keeper: Option<Arc<dyn Keeper>>,
}

impl<T> Outcome<T> {
    fn new(result: Result<T, Ended>, header: &Header) -> Self {
        let is_foreign = mem::needs_drop::<T>() || matches!(result, Err(Ended::Panicked(_)));
        Self {
            result: Some(result),
            keeper: is_foreign.then(|| Arc::clone(header.keeper())),
        }
    }

    /// Returns the result for the handle.
    pub(crate) fn into_result(mut self) -> Result<T, Ended> {
        self.result.take().unwrap_or(Err(Ended::Cancelled))
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        let (Some(keeper), Some(result)) = (&self.keeper, self.result.take()) else {
            return;
        };
        if caught(|| drop(result)) {
            keeper.panicked();
        }
    }
}

pin_project! {
    /// The future of a task.
    ///
    /// Any thread may free the cell of a task as soon as its poll has ended. So this type does the worker's work for
    /// the task right after the future's poll, before the poll of the cell returns. Until then the cell exists, because
    /// it outlives the future.
    pub(crate) struct Polled<F> {
        #[pin]
        future: Option<F>,
        header: OwnHeader,
    }

    impl<F> PinnedDrop for Polled<F> {
        fn drop(this: Pin<&mut Self>) {
            this.end();
        }
    }
}

impl<F> Polled<F> {
    pub(crate) fn new(future: F, header: OwnHeader) -> Self {
        Self {
            future: Some(future),
            header,
        }
    }

    /// Ends the task: its future has finished or was dropped, and its cell still exists.
    fn end(self: Pin<&mut Self>) {
        let mut this = self.project();
        let header = this.header.get();
        let keeper = header.keeper();
        if caught(|| this.future.set(None)) {
            keeper.panicked();
        }
        keeper.end(header);
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = Outcome<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            // Over already: the cell polls no more.
            return Poll::Pending;
        };
        if this.header.get().listing.is_aborted() {
            // The future is dropped with the cell's part for it, after this poll.
            return Poll::Ready(Outcome::new(Err(Ended::Cancelled), this.header.get()));
        }
        current::note_waker(context.waker());
        match refilled(|| catch_unwind(AssertUnwindSafe(|| future.poll(context)))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Outcome::new(Ok(output), this.header.get())),
            Err(payload) => {
                let header = this.header.get();
                header.keeper().panicked();
                Poll::Ready(Outcome::new(Err(Ended::Panicked(payload)), header))
            }
            Ok(Poll::Pending) => {
                if !current::yields() {
                    // What waits is polled by its worker alone.
                    own::polls(|own| own.sleep(this.header, context.waker()));
                }
                Poll::Pending
            }
        }
    }
}
