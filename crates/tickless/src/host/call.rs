//! Wake-ups of a task that takes turns: any thread may call the task, and a second call before its turn wakes nothing.
//!
//! # Ground rules
//!
//! - The task [introduces](Call::introduce) itself before it checks for work for the first time, and
//!   [takes](Call::take) the call before it acts on the call.
//! - So a pending call needs no second wake-up: the task was woken for the call, has not checked for work for the first
//!   time, or no longer exists.
//!
//! A Loom model runs this code unchanged (`model.rs`).

use std::sync::PoisonError;
use std::task::Waker;

use tickless_link::sync::{AtomicBool, Ordering};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, loom))]
mod model;

/// The call to one task: whether it is pending, and the task's waker.
#[derive(Debug)]
pub(crate) struct Call {
    is_pending: AtomicBool,
    /// The task's waker; `None` before the task introduced itself, and after the task has ended.
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

    /// Wakes the task, unless an earlier call is still pending. If there is no task, the call stays pending and wakes
    /// nothing.
    pub(crate) fn make(&self) {
        // Relaxed, here and in `take`: what the call is about the task finds under locks of its own. One that finds
        // another call pending comes before the `take` that ends it, for which the task was woken. One that comes
        // after the first `take` is after the task's introduction by the lock below: had it locked before that, its
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

    /// Ends the pending call. Returns true if a call was pending. The task calls this function.
    pub(crate) fn take(&self) -> bool {
        // Relaxed: see `make`.
        self.is_pending.swap(false, Ordering::Relaxed)
    }

    /// Sets the waker of the task. The task calls this in its first poll, before it checks for work. The caller drops
    /// the returned waker without a lock.
    pub(crate) fn introduce(&self, task: Waker) -> Option<Waker> {
        self.task().replace(task)
    }

    /// Forgets the task; another task may introduce itself later. The caller drops the returned waker without a lock.
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

    /// A call that the previous task did not take does not keep the next task from taking calls.
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
