//! A bound on how long a task that need not wait keeps its thread.
//!
//! `while !done { sleep(Duration::ZERO).await }` never gives its thread back if each sleep is ready at its first poll:
//! the task that would end the loop never runs. So a task has a budget. In one poll of the task [`ROUNDS`] sleeps may
//! be ready without having waited. The next such sleep returns "pending" and wakes the task, and the runtime polls the
//! task anew, with a new budget. A sleep that waited takes nothing from the budget.
//!
//! | who polls the task | the budget |
//! |---|---|
//! | a runtime of this library | is [new](refilled) in each poll |
//! | tokio, if the feature `tokio` is on | is the one that tokio gives to the poll, for its own sleeps and channels too |
//! | any other runtime | is the thread's, and is refilled when it has refused one sleep: nothing says where a poll begins |
//!
//! A future with a time limit may find that no budget is left. Then the inner future is refused although it may be
//! ready, so its limit must not end it: see [`poll_limited`].
//!
//! # Limits
//!
//! A poll with a waker without data, like [`Waker::noop`], never has to wait: such a waker belongs to code that polls
//! once. Another executor that polls on a thread of tokio, between two polls by tokio, has no bound there, as in tokio.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[cfg(feature = "tokio")]
use tokio::runtime::Handle;
#[cfg(feature = "tokio")]
use tokio::task::coop;

/// The number of sleeps that may be ready without having waited in one poll of a task, as in tokio.
const ROUNDS: u32 = 128;

/// The number of sleeps that are refused in one poll of a task. After that the poll is one in which another executor
/// polls, as a `block_on` in a task does: it polls a refused task for ever unless the budget is refilled.
const REFUSALS: u32 = 1_024;

/// The budget of the task that this thread polls.
#[derive(Clone, Copy)]
struct Budget {
    /// The number of sleeps that may still be ready without having waited.
    left: u32,
    /// The number of sleeps that are refused then, until the budget is refilled.
    refusals: u32,
}

impl Budget {
    /// The budget of a poll by a runtime of this library.
    const OF_POLL: Self = Self {
        left: ROUNDS,
        refusals: REFUSALS,
    };

    /// The budget of a thread on which another runtime polls.
    const OF_THREAD: Self = Self {
        left: ROUNDS,
        refusals: 1,
    };

    /// Returns the budget after one more sleep was refused.
    const fn refused(self) -> Self {
        if self.refusals > 1 {
            let refusals = self.refusals - 1;
            Self { refusals, ..self }
        } else {
            Self::OF_THREAD
        }
    }
}

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(Budget::OF_THREAD) };
}

/// Polls a task by `poll`, with a new budget.
#[inline]
pub(crate) fn refilled<R>(poll: impl FnOnce() -> R) -> R {
    let outer = BUDGET.replace(Budget::OF_POLL);
    let polled = poll();
    BUDGET.set(outer);
    polled
}

/// Takes a share of the budget for a sleep that is over and never waited. Returns true if none is left: the task of
/// `waker` is woken then, and the sleep has to return "pending".
#[inline]
pub(crate) fn is_spent(waker: &Waker) -> bool {
    if waker.data().is_null() {
        return false;
    }
    let budget = BUDGET.get();
    #[cfg(feature = "tokio")]
    if budget.refusals <= Budget::OF_THREAD.refusals && Handle::try_current().is_ok() {
        return match coop::poll_proceed(&mut Context::from_waker(waker)) {
            Poll::Ready(share) => {
                share.made_progress();
                false
            }
            Poll::Pending => true,
        };
    }
    if budget.left == 0 {
        refuse(waker);
        return true;
    }
    let left = budget.left - 1;
    BUDGET.set(Budget { left, ..budget });
    false
}

/// Makes the task of `waker` give its thread back.
#[cold]
fn refuse(waker: &Waker) {
    BUDGET.with(|budget| {
        if budget.get().left == 0 {
            budget.set(budget.get().refused());
        }
    });
    waker.wake_by_ref();
}

/// Returns true if some of the budget is left.
#[inline]
fn is_left() -> bool {
    #[cfg(feature = "tokio")]
    if !coop::has_budget_remaining() {
        return false;
    }
    BUDGET.get().left > 0
}

/// Polls `value`, and then `limit`, which ends the value.
///
/// A value that spends the budget in this poll was polled as often as it may be, so its limit counts, although no
/// budget is left for it. A value that finds no budget may be ready. Its limit does not count in this poll, and the
/// task is woken.
#[inline]
pub(crate) fn poll_limited<T, E>(
    context: &mut Context<'_>,
    value: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    mut limit: impl FnMut(&mut Context<'_>) -> Poll<E>,
) -> Poll<Result<T, E>> {
    let had_some = is_left();
    if let Poll::Ready(output) = value(context) {
        return Poll::Ready(Ok(output));
    }
    let limited = if is_left() && had_some {
        limit(context)
    } else if had_some {
        poll_without_budget(context, limit)
    } else {
        refuse(context.waker());
        Poll::Pending
    };
    limited.map(Err)
}

/// Polls by `poll`, which may take one share that is not there.
#[cold]
fn poll_without_budget<E>(
    context: &mut Context<'_>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<E>,
) -> Poll<E> {
    let spent = BUDGET.get();
    BUDGET.set(Budget { left: 1, ..spent });
    let limit = poll_fn(poll);
    #[cfg(feature = "tokio")]
    let limit = coop::unconstrained(limit);
    let polled = pin!(limit).poll(context);
    BUDGET.set(spent);
    polled
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

    impl Task {
        fn woken(&self) -> u32 {
            // Relaxed: one thread.
            self.0.load(Ordering::Relaxed)
        }
    }

    fn task() -> (Arc<Task>, Waker) {
        let task = Arc::new(Task::default());
        (Arc::clone(&task), Waker::from(task))
    }

    fn spend(waker: &Waker) {
        assert!((0..ROUNDS).all(|_| !is_spent(waker)));
    }

    #[test]
    fn a_task_of_any_runtime_that_never_waits_gives_way_now_and_then() {
        let (task, waker) = task();
        for round in 1..=10 {
            spend(&waker);
            assert!(is_spent(&waker));
            assert_eq!(task.woken(), round, "woken, or it is lost");
        }
    }

    #[test]
    fn a_poll_of_a_runtime_of_this_library_has_the_whole_budget_and_no_more() {
        let (task, waker) = task();
        for _ in 0..3 {
            refilled(|| {
                spend(&waker);
                assert!((0..100).all(|_| is_spent(&waker)));
            });
        }
        for _ in 0..1_000 {
            refilled(|| assert!(!is_spent(&waker)));
        }
        assert_eq!(task.woken(), 300);
    }

    #[test]
    fn an_executor_within_a_poll_goes_on() {
        let (_, waker) = task();
        refilled(|| {
            let refused = |_: &u32| is_spent(&waker);
            let spun = (0..ROUNDS + REFUSALS + 10 * (ROUNDS + 1)).filter(refused);
            assert_eq!(spun.count(), REFUSALS as usize + 10);
        });
    }

    #[test]
    fn a_limit_counts_behind_a_value_that_was_polled() {
        let (task, waker) = task();
        let mut context = Context::from_waker(&waker);
        let context = &mut context;
        let over = |context: &mut Context<'_>| {
            if is_spent(context.waker()) {
                return Poll::Pending;
            }
            Poll::Ready("over")
        };
        let never = |_: &mut Context<'_>| Poll::<&str>::Pending;
        refilled(|| {
            assert_eq!(poll_limited(context, over, over), Poll::Ready(Ok("over")));
            assert_eq!(poll_limited(context, never, over), Poll::Ready(Err("over")));
            // A value that spends all of it.
            let spends = |context: &mut Context<'_>| {
                while over(context).is_ready() {}
                Poll::<&str>::Pending
            };
            assert_eq!(
                poll_limited(context, spends, over),
                Poll::Ready(Err("over"))
            );
            assert!(is_spent(&waker), "the limit leaves nothing behind");
            let woken = task.woken();
            assert_eq!(poll_limited(context, over, over), Poll::Pending);
            assert_eq!(poll_limited(context, never, over), Poll::Pending);
            assert_eq!(task.woken(), woken + 3, "it is polled again");
        });
    }

    #[test]
    fn a_waker_that_wakes_no_task_is_never_told_to_wait() {
        assert!((0..1_000).all(|_| !is_spent(Waker::noop())));
    }
}
