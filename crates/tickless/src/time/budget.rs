//! A bound on how long a task that need not wait keeps its thread.
//!
//! `while !done { sleep(Duration::ZERO).await }` never gives its thread back if each sleep is ready at its first poll:
//! the task that would end the loop never runs. In tokio a budget ends such a loop; the runtime refills the budget with
//! each turn of a task. This library knows no runtime, but it sees the task. If [`ROUNDS`] polls in a row of one task
//! on one thread were ready without any waiting, the next poll returns "pending", and the task is woken at once. So
//! other tasks run now and then. A task that did give its thread back in between loses one turn for nothing.
//!
//! # Limits
//!
//! A poll with a waker without data, like [`Waker::noop`], never has to wait: such a waker belongs to code that polls
//! once. (The addresses of its functions differ from crate to crate, so [`Waker::will_wake`] does not recognise it.)
//! Two futures of one task that have wakers of their own and are ready alternately count as two tasks.

use std::cell::Cell;
use std::task::Waker;

/// The number of times in a row that a task need not wait, as in tokio.
const ROUNDS: u32 = 128;

thread_local! {
    /// The data of the waker whose poll was ready last, and how often in a row. Only the address is compared: a task at
    /// the address of an earlier task takes over its count, and waits one turn for nothing.
    static TOLD: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// Counts an expiry, and returns true if the task of `waker` has to give up its thread first: the task is woken then,
/// and its poll returns "pending".
#[inline]
pub(crate) fn is_spent(waker: &Waker) -> bool {
    let task = waker.data().addr();
    let is_spent = TOLD.with(|told| {
        let (last, count) = told.get();
        let count = if last == task { count + 1 } else { 1 };
        told.set((task, count % (ROUNDS + 1)));
        count > ROUNDS && task != 0
    });
    if is_spent {
        waker.wake_by_ref();
    }
    is_spent
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            // Relaxed: one thread.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn task() -> (Arc<Task>, Waker) {
        let task = Arc::new(Task::default());
        (Arc::clone(&task), Waker::from(task))
    }

    #[test]
    fn a_task_that_never_waits_gives_way_now_and_then() {
        let (task, waker) = task();
        for round in 1..=10 {
            assert!((0..ROUNDS).all(|_| !is_spent(&waker)));
            assert!(is_spent(&waker));
            assert_eq!(
                task.0.load(Ordering::Relaxed),
                round,
                "woken, or it is lost"
            );
        }
    }

    #[test]
    fn tasks_that_take_turns_give_way_to_each_other_anyway() {
        let tasks = [task(), task()];
        for _ in 0..1_000 {
            assert!(tasks.iter().all(|(_, waker)| !is_spent(waker)));
        }
    }

    #[test]
    fn a_waker_that_wakes_no_task_is_never_told_to_wait() {
        assert!((0..1_000).all(|_| !is_spent(Waker::noop())));
    }
}
