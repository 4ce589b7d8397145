//! A call to a task that takes turns: any thread makes one, and none wakes the task that is on its way already.
//!
//! # Ground rules
//!
//! - The task [introduces](Call::introduce) itself before it first looks, and [takes](Call::take) the call before it
//!   acts on it.
//! - So a call that is pending has an answer to come: the task was woken for it, or has not looked for the first time,
//!   or is none any more.
//!
//! Loom runs this as it is (`model.rs`).

use std::sync::PoisonError;
use std::task::Waker;

use tickless_link::sync::{AtomicBool, Ordering};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, loom))]
mod model;

/// Call of a task: whether it is called, and its waker.
#[derive(Debug)]
pub(crate) struct Call {
    is_pending: AtomicBool,
    /// `None` before the task introduced itself, and when it is gone.
    task: Mutex<Option<Waker>>,
}

impl Call {
    pub(crate) fn new() -> Self {
        Self {
            is_pending: AtomicBool::new(false),
            task: Mutex::new(None),
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task, unless it is about to come. Nothing happens if there is none.
    pub(crate) fn make(&self) {
        // Relaxed, here and in `take`: what the call is about the task finds under locks of its own. One that finds
        // another call pending comes before the `take` that ends it, for which the task was woken. One that comes
        // behind the first `take` is behind the task's introduction by the lock below: had it locked before that, its
        // own exchange would be before that `take`.
        if self.is_pending.swap(true, Ordering::Relaxed) {
            return;
        }
        // Woken without the lock: it is foreign code.
        let task = self.task().clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Returns whether the task, which calls this, was called since it did so last.
    pub(crate) fn take(&self) -> bool {
        // Relaxed: see `make`.
        self.is_pending.swap(false, Ordering::Relaxed)
    }

    /// `task` wakes the task, which is polled for the first time and looks behind this. The returned waker is to be
    /// dropped without a lock.
    pub(crate) fn introduce(&self, task: Waker) -> Option<Waker> {
        self.task().replace(task)
    }

    /// Forgets the task; there may be another one later. The caller drops the returned waker without a lock.
    pub(crate) fn forget(&self) -> Option<Waker> {
        self.task().take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            // Relaxed: one thread.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_until_it_takes_the_call() {
        let (call, wakes) = (Call::new(), Arc::<Wakes>::default());
        let woken = || wakes.0.load(Ordering::Relaxed);
        call.make();
        assert!(call.introduce(Waker::from(Arc::clone(&wakes))).is_none());
        assert!(call.take() && !call.take());
        for expected in [1, 1] {
            call.make();
            assert_eq!(woken(), expected);
        }
        assert!(call.take());
        call.make();
        assert_eq!(woken(), 2);
    }

    /// The next task is not kept from hearing calls by one that the task before did not answer.
    #[test]
    fn a_call_to_a_task_that_is_gone_is_found_by_the_next() {
        let (call, wakes) = (Call::new(), Arc::<Wakes>::default());
        assert!(call.introduce(Waker::from(Arc::clone(&wakes))).is_none());
        assert!(call.forget().is_some());
        call.make();
        call.make();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        assert!(call.introduce(Waker::from(Arc::clone(&wakes))).is_none());
        assert!(call.take());
        call.make();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }
}
