//! The tasks that waited for something for the first time on a worker, and are not over: each with a waker, by which it
//! is polled once more when it is to end.

use std::task::Waker;

use slab::Slab;

use super::header::Header;

/// The list of a worker.
#[derive(Debug, Default)]
pub(crate) struct TaskList(Slab<Waker>);

impl TaskList {
    /// Lists a task that waits for something for the first time. Returns true if it was aborted by now.
    pub(crate) fn enlist(&mut self, home: usize, header: &Header, waker: Waker) -> bool {
        let slot = self.0.insert(waker);
        header.listing.set_place(home, slot)
    }

    /// Takes a task out of the list, when it is over. The waker is dropped without the lock.
    pub(crate) fn delist(&mut self, slot: usize) -> Option<Waker> {
        self.0.try_remove(slot)
    }

    /// Returns the waker of a task.
    pub(crate) fn waker(&self, slot: usize) -> Option<Waker> {
        self.0.get(slot).cloned()
    }

    /// Returns the wakers of all tasks.
    pub(crate) fn wakers(&self) -> Vec<Waker> {
        self.0.iter().map(|(_, waker)| waker.clone()).collect()
    }
}
