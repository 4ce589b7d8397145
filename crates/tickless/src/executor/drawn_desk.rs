//! The operations of a worker on its tasks if a seed draws their order: no time is accounted, and no task moves to
//! another worker.

use std::task::Waker;

use super::header::{Job, Keeper, OwnHeader};
use super::own::OwnWorker;
use super::shared::Shared;

/// The worker of an executor whose order is drawn.
pub(crate) struct DrawnDesk<'a> {
    shared: &'a Shared,
    index: usize,
}

impl<'a> DrawnDesk<'a> {
    pub(crate) fn new(shared: &'a Shared, index: usize) -> Self {
        Self { shared, index }
    }
}

impl OwnWorker for DrawnDesk<'_> {
    fn schedule(&self, job: Job) {
        Keeper::schedule(self.shared, job);
    }

    fn sleep(&self, header: &OwnHeader, waker: &Waker) {
        let header = header.get();
        if !self.shared.is_here() || header.listing.is_listed() {
            return;
        }
        let listed = waker.clone();
        let mut scheduler = self.shared.places[self.index].lock();
        let is_aborted = scheduler.tasks.enlist(self.index, header, listed);
        drop(scheduler);
        if is_aborted {
            // The thread that aborted it found no place.
            waker.wake_by_ref();
        }
    }
}
