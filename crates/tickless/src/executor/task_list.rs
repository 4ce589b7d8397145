//! The unfinished tasks that waited for something for the first time on a certain worker. Each has a waker, by which
//! the task is polled once more when it has to end.

use std::task::Waker;

use slab::Slab;

use super::header::Header;

/// The task list of a worker.
#[derive(Debug, Default)]
pub(crate) struct TaskList(Slab<Waker>);

impl TaskList {
    /// Lists a task that waits for something for the first time. Returns true if the task has been aborted meanwhile.
    pub(crate) fn enlist(&mut self, home: usize, header: &Header, waker: Waker) -> bool {
        let slot = self.0.insert(waker);
        header.listing.set_place(home, slot)
    }

    /// Removes a finished task from the list. The caller drops the waker without the lock.
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
