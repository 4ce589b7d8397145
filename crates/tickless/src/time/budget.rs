//! A bound on how long a task that need not wait keeps its thread.
//!
//! `while !done { sleep(Duration::ZERO).await }` never gives its thread back if what is over says so each time: what
//! would end the loop gets no turn. In tokio a budget ends it, which the runtime refills with each turn of a task. This
//! library knows no runtime, but it sees the task: after [`ROUNDS`] answers in a row to one task on one thread, each
//! without any waiting, the next one is "not yet", and the task is woken at once. So others have their turn now and
//! then, and a task that did give its thread back in between pays one turn for nothing.
//!
//! # Limits
//!
//! A waker without data, like [`Waker::noop`], is never told to wait: it belongs to code that asks once. (The addresses
//! of its functions differ from crate to crate, so it cannot be told by [`Waker::will_wake`].) Two tasks in one, with
//! wakers of their own, that are ready in turns are taken for two.

use std::cell::Cell;
use std::task::Waker;

/// Number of times in a row that a task need not wait. As in tokio.
const ROUNDS: u32 = 128;

thread_local! {
    /// The data of the waker that was told last that its time has come, and how often. The address is compared only: a
    /// task that comes to lie where another lay takes over its count, and waits one turn for nothing.
    static TOLD: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// Counts an expiry, and returns whether the task of `waker` has to give up its thread before it learns that a time is
/// over: it is woken then.
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
