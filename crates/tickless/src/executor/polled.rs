//! The future in a task's cell: the user's, guarded, with what its worker has to do for it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::current;
use super::header::OwnHeader;
use super::own;

/// What a panic carried.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// Why a task ended without a result.
pub(crate) enum Ended {
    /// It panicked.
    Panicked(Payload),
    /// Its handle or its executor ended it.
    Cancelled,
}

pin_project! {
    /// The future of a task.
    ///
    /// The cell of a task may be freed by any thread as soon as its poll is over, so what a worker has to do for the
    /// task behind its poll it does in here: the cell outlives the future.
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

    /// The future is over or dropped, and the cell still there.
    fn end(self: Pin<&mut Self>) {
        let mut this = self.project();
        let header = this.header.get();
        let keeper = header.keeper();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
            std::mem::forget(payload);
            keeper.panicked();
        }
        keeper.end(header);
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = Result<F::Output, Ended>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            // Over already: the cell polls no more.
            return Poll::Pending;
        };
        if this.header.get().listing.is_aborted() {
            // The future is dropped with the cell's part for it, behind this poll.
            return Poll::Ready(Err(Ended::Cancelled));
        }
        current::note_waker(context.waker());
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(payload) => {
                this.header.get().keeper().panicked();
                Poll::Ready(Err(Ended::Panicked(payload)))
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
