//! The future in a task's cell: the user's, guarded, with what its worker has to do for it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::current;
use super::header::OwnHeader;
use super::shared::Handle;
use crate::host::thread::at_earliest;

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
        executor: Handle,
        header: OwnHeader,
    }

    impl<F> PinnedDrop for Polled<F> {
        fn drop(this: Pin<&mut Self>) {
            this.end();
        }
    }
}

impl<F> Polled<F> {
    pub(crate) fn new(future: F, executor: Handle, header: OwnHeader) -> Self {
        Self {
            future: Some(future),
            executor,
            header,
        }
    }

    /// The future is over or dropped, and the cell still there.
    fn end(self: Pin<&mut Self>) {
        let mut this = self.project();
        let (executor, header) = (&*this.executor, this.header.get());
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
            std::mem::forget(payload);
            executor.panicked();
        }
        if !executor.is_here() {
            // The lists are the parent's.
            return;
        }
        let listed = header.place();
        let runs_on =
            current::worker_of(executor.id).filter(|_| current::is_running(header.address()));
        let mut waker = runs_on.and_then(|worker| {
            let slot = listed
                .filter(|(home, _)| *home == worker)
                .map(|(_, slot)| slot);
            executor.places[worker].with(|queue| {
                if !current::has_ended() {
                    queue.finish(at_earliest());
                }
                slot.and_then(|slot| queue.delist(slot))
            })
        });
        if let Some((home, slot)) = listed
            && runs_on != Some(home)
        {
            waker = executor.places[home].lock().delist(slot);
        }
        if header.server().is_some() {
            // Always queued there, and by now in no queue.
            executor.places[header.worker()].with(|queue| queue.dismiss(header));
        }
        // Dropped here, with no lock held.
        drop(waker);
        executor.retire();
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
        if this.header.get().is_aborted() {
            // The future is dropped with the cell's part for it, behind this poll.
            return Poll::Ready(Err(Ended::Cancelled));
        }
        current::note_waker(context.waker());
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(payload) => {
                this.executor.panicked();
                Poll::Ready(Err(Ended::Panicked(payload)))
            }
            Ok(Poll::Pending) => {
                if !current::yields()
                    && this.executor.is_here()
                    && let Some(worker) = current::worker_of(this.executor.id)
                {
                    this.executor.sleep(worker, this.header);
                }
                Poll::Pending
            }
        }
    }
}
