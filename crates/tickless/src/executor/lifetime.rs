//! The number of an executor's tasks, and whether it takes more.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The states of an executor, one after the other.
#[derive(Clone, Copy)]
#[repr(u8)]
enum State {
    Open,
    /// No task is taken any more.
    Closed,
    /// Workers end when they look next.
    Stopped,
}

/// The count, and the state.
#[derive(Debug)]
pub(crate) struct Lifetime {
    /// Tasks that are not over.
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

    /// Counts a task more. Returns true if it is taken. One that is not is ended at once, which counts it off.
    pub(crate) fn admit(&self) -> bool {
        // SeqCst, here and in `is_open`: a shutdown that finds no task has every later one refused, see `close`.
        self.tasks.fetch_add(1, Ordering::SeqCst);
        self.is_open()
    }

    /// Counts a task that is over. Returns true if it was the last one and none comes any more.
    pub(crate) fn retire(&self) -> bool {
        // SeqCst: see `admit`.
        self.tasks.fetch_sub(1, Ordering::SeqCst) == 1 && !self.is_open()
    }

    /// Returns the number of tasks that are not over.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.load(Ordering::SeqCst)
    }

    /// Takes no task any more.
    pub(crate) fn close(&self) {
        self.enter(State::Closed);
    }

    /// Has the workers end when they look next.
    pub(crate) fn stop(&self) {
        self.enter(State::Stopped);
    }

    fn enter(&self, state: State) {
        // SeqCst: see `admit`; it includes the Release that pairs with the Acquire in `is_stopped`.
        self.state.fetch_max(state as u8, Ordering::SeqCst);
    }

    /// Returns whether the workers end.
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
