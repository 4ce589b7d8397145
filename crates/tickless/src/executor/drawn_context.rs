//! The operations of a worker on its tasks if a seed determines their order: no time is accounted, and no task moves to
//! another worker.

use std::task::Waker;

use super::header::{Job, Keeper, OwnHeader};
use super::own::OwnWorker;
use super::shared::Shared;

/// The worker of an executor whose order a seed determines.
pub(crate) struct DrawnContext<'a> {
    shared: &'a Shared,
    index: usize,
}

impl<'a> DrawnContext<'a> {
    pub(crate) fn new(shared: &'a Shared, index: usize) -> Self {
        Self { shared, index }
    }
}

impl OwnWorker for DrawnContext<'_> {
    fn queue_woken(&self, job: Job) {
        Keeper::queue_woken(self.shared, job);
    }

    fn sleep(&self, header: &OwnHeader, waker: &Waker) {
        let header = header.get();
        if self.shared.is_here() && !header.listing.is_listed() {
            self.shared.places[self.index].enlist(self.index, header, waker);
        }
    }
}
