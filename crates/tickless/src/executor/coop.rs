//! Points at which a task that computes lets other tasks run.
//!
//! | | when | what happens | cost when no other task wants the worker |
//! |---|---|---|---|
//! | [`checkpoint`] | in an `async` computation, each 10 µs or so | the task yields if its slice is over | a flag, and in counter mode the counter |
//! | [`need_resched`] | in a tight loop that cannot `await` at each step | returns whether the next checkpoint would yield | the same |
//! | [`extend_slice`] | around a short section for which other tasks wait | a slice that ends in the section is extended once, by 20 µs | two stores |
//! | [`yield_now`] | where other tasks should run in any case | the task yields to the next task by the rules | a switch |
//!
//! Outside of an [`Executor`](crate::Executor) a checkpoint is ready at once and [`need_resched`] is `false`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{context, current};
use crate::host::{device, thread};
use crate::time::virtual_time::runtime;

/// Returns true if the running task should yield: its slice is over, a more urgent task was woken, or a timer of its
/// worker is due.
///
/// The function is for loops that cannot `await` at each step: call [`checkpoint`] when it returns true. It returns
/// `false` on threads that are no workers of an executor.
///
/// # Cost
///
/// Two loads, a read of the counter, and a comparison.
#[inline]
#[must_use]
pub fn need_resched() -> bool {
    if !current::is_worker() {
        return false;
    }
    if current::take_arrived() && check_preempt() {
        return true;
    }
    thread::with_thread(|thread| {
        let Some(base) = thread.base() else {
            return false;
        };
        base.local().resched.is_requested()
            || device::due_but_coarse(base) <= thread.reading.now_lower()
    })
}

/// Yields to other tasks if the running task [should](need_resched), and is ready at once otherwise.
///
/// ```
/// # let executor = tickless::Executor::builder().workers(1).build()?;
/// let sum = executor.block_on(executor.spawn(async {
///     let mut sum = 0_u64;
///     for number in 0..100_000 {
///         sum += number;
///         tickless::coop::checkpoint().await;
///     }
///     sum
/// }))?;
/// assert_eq!(sum, 4_999_950_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cancellation
///
/// Nothing is lost: the task stays runnable.
#[inline]
pub fn checkpoint() -> Checkpoint {
    Checkpoint {
        gave_way: false,
        always: false,
    }
}

/// Yields to other tasks. The task stays runnable, and runs again when the queue's rules pick it: at once if no other
/// task waits.
///
/// In other executors this function works as their own function for yielding does.
#[inline]
pub fn yield_now() -> Checkpoint {
    Checkpoint {
        gave_way: false,
        always: true,
    }
}

/// The future that [`checkpoint`] and [`yield_now`] return.
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Checkpoint {
    gave_way: bool,
    always: bool,
}

impl Future for Checkpoint {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.gave_way || !self.always && !need_resched() {
            return Poll::Ready(());
        }
        self.gave_way = true;
        give_way(context, !self.always);
        Poll::Pending
    }
}

/// Requests an extension of 20 µs in case the task's slice ends before the returned guard is dropped. If the slice ends
/// there, the task's next checkpoint does not yield.
///
/// The extension is for short sections for which other tasks wait, for example a section that holds a lock across an
/// `await`: if the task is preempted there, those tasks wait for as long as the slices of all other tasks take. The
/// extension is granted once for each turn of the task, and a timer ends it. A task that used its extension yields at
/// its next checkpoint after the section. Due timers fire at a checkpoint in any case. The task is charged for the time
/// that it uses.
///
/// A task that waits in the section ends its turn, and the request for an extension with it. No extension is granted if
/// timers do not end slices: [`hrtick`](crate::executor::Builder::hrtick).
///
/// ```
/// # let executor = tickless::Executor::builder().workers(1).build()?;
/// # executor.block_on(executor.spawn(async {
/// let more = tickless::coop::extend_slice();
/// // A few microseconds that others wait for, with checkpoints in what is called.
/// tickless::coop::checkpoint().await;
/// drop(more);
/// # }))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn extend_slice() -> SliceExtension {
    let task = current::ask_for_extension();
    SliceExtension { task }
}

/// The guard that [`extend_slice`] returns. The task requests an extension until the guard is dropped.
#[derive(Debug)]
#[must_use = "dropped at once, it asks for nothing"]
pub struct SliceExtension {
    /// The address of the task's header, which identifies the task. The address is compared and never followed.
    task: usize,
}

impl Drop for SliceExtension {
    fn drop(&mut self) {
        if current::withdraw_extension(self.task) {
            thread::with_thread(|thread| {
                if let Some(base) = thread.base() {
                    base.local().resched.request();
                }
            });
        }
    }
}

/// Enqueues the tasks that the running task woke. Returns true if one of them is more urgent than the running task.
#[cold]
fn check_preempt() -> bool {
    context::current().is_some_and(|executor| executor.check_preempt())
}

#[cold]
fn give_way(context: &Context<'_>, is_preempted: bool) {
    if !is_preempted {
        runtime::gave_way();
    }
    context.waker().wake_by_ref();
    current::set_yields(context.waker(), is_preempted);
}
