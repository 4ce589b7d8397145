//! The number of an executor's tasks, and whether the executor accepts more tasks.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The states of an executor, in the order in which an executor has them.
#[derive(Clone, Copy)]
#[repr(u8)]
enum State {
    Open,
    /// The executor accepts no new task.
    Closed,
    /// Workers end when they check the state next.
    Stopped,
}

/// The number of tasks, and the state of the executor.
#[derive(Debug)]
pub(crate) struct Lifetime {
    /// The number of tasks that have not finished.
    tasks: AtomicUsize,
    state: AtomicU8,
}

impl Lifetime {
    pub(crate) const fn new() -> Self {
        Self {
            tasks: AtomicUsize::new(0),
            state: AtomicU8::new(State::Open as u8),
        }
    }

    fn is_open(&self) -> bool {
        self.state.load(Ordering::SeqCst) == State::Open as u8
    }

    /// Counts a new task. Returns true if the executor accepts the task. A task that is not accepted is ended at once,
    /// and its end decrements the count.
    pub(crate) fn admit(&self) -> bool {
        // SeqCst, here and in `is_open`: a shutdown that finds no task has every later one refused, see `close`.
        self.tasks.fetch_add(1, Ordering::SeqCst);
        self.is_open()
    }

    /// Counts off a task that has finished. Returns true if it was the last task and the executor accepts no new one.
    pub(crate) fn retire(&self) -> bool {
        // SeqCst: see `admit`.
        self.tasks.fetch_sub(1, Ordering::SeqCst) == 1 && !self.is_open()
    }

    /// Returns the number of tasks that have not finished.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.load(Ordering::SeqCst)
    }

    /// Makes the executor accept no new task.
    pub(crate) fn close(&self) {
        self.enter(State::Closed);
    }

    /// Makes the workers end when they check the state next.
    pub(crate) fn stop(&self) {
        self.enter(State::Stopped);
    }

    fn enter(&self, state: State) {
        // SeqCst: see `admit`; it includes the Release that pairs with the Acquire in `is_stopped`.
        self.state.fetch_max(state as u8, Ordering::SeqCst);
    }

    /// Returns whether the workers have to end.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Acquire: see `enter`.
        self.state.load(Ordering::Acquire) == State::Stopped as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_that_stopped_stays_so_when_it_is_closed() {
        let lifetime = Lifetime::new();
        assert!(lifetime.admit());
        lifetime.stop();
        lifetime.close();
        assert!(lifetime.is_stopped());
        assert!(!lifetime.admit(), "it counts, and is not taken");
        assert_eq!(lifetime.tasks(), 2);
        assert_eq!([lifetime.retire(), lifetime.retire()], [false, true]);
    }
}
