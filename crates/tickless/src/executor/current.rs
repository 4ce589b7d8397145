//! Thread-local state of a worker: its executor, and the task that it polls.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::task::Waker;

use tickless_core::time::Instant;
use tickless_link::bias::Owner;
use tickless_sched::hrtick::Extension;

use super::header::Job;
/// The thread-local words of a worker. They need no destructor, so that an access is one addition to the thread
/// pointer.
pub(crate) struct Current {
    /// The number of the executor of which this thread is a worker; 0 if it is no worker.
    executor: Cell<u64>,
    worker: Cell<usize>,
    /// The task that is being polled, by the address of its header. The address is compared and never followed.
    running: Cell<usize>,
    /// The data of that task's waker, which is compared and never followed.
    waker: Cell<usize>,
    /// True if the task yields and stays runnable.
    yields: Cell<bool>,
    /// True if the task yields because it was preempted.
    preempted: Cell<bool>,
    /// The extension that the task requests for the case that it has to yield.
    extension: Cell<Extension>,
    /// True if the task was granted an extension: its next poll is no new turn.
    goes_on: Cell<bool>,
    /// The token that identifies the owner to the lock of the worker's queue.
    owner: Cell<Option<Owner>>,
    /// The time at which the poll ended, if the task was accounted then and no next task was picked.
    ended: Cell<Option<Instant>>,
    /// The task that was picked when the poll ended.
    next: Cell<ManuallyDrop<Option<Job>>>,
    /// True if the running task may have woken a task that is not enqueued yet.
    arrived: Cell<bool>,
}

thread_local! {
    static CURRENT: Current = const {
        Current {
            executor: Cell::new(0),
            worker: Cell::new(0),
            running: Cell::new(0),
            waker: Cell::new(0),
            yields: Cell::new(false),
            preempted: Cell::new(false),
            extension: Cell::new(Extension::None),
            goes_on: Cell::new(false),
            owner: Cell::new(None),
            ended: Cell::new(None),
            next: Cell::new(ManuallyDrop::new(None)),
            arrived: Cell::new(false),
        }
    };
}

/// Calls `body` with the words of this thread. A worker then reaches the words without further look-ups.
pub(crate) fn with<R>(body: impl FnOnce(&Current) -> R) -> R {
    CURRENT.with(body)
}

impl Current {
    /// Returns the token that identifies this worker to the lock of its queue. The token is meaningless to other locks.
    #[inline]
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner.get()
    }

    /// Notes that the task of the poll in progress waits or has yielded, and was accounted until `now`. No user code
    /// follows before the worker schedules.
    #[inline]
    pub(crate) fn set_ended(&self, now: Instant) {
        self.ended.set(Some(now));
    }

    /// Notes the end of the poll as [`set_ended`](Self::set_ended) does, together with the next task, which was picked.
    #[inline]
    pub(crate) fn set_next(&self, job: Job) {
        let _none = self.next.replace(ManuallyDrop::new(Some(job)));
    }

    /// Takes the task that was picked at the end of the previous poll, if a task was.
    #[inline]
    pub(crate) fn take_next(&self) -> Option<Job> {
        ManuallyDrop::into_inner(self.next.replace(ManuallyDrop::new(None)))
    }

    /// Takes the time at which the previous poll ended, if it was noted.
    #[inline]
    pub(crate) fn take_ended(&self) -> Option<Instant> {
        self.ended.take()
    }

    /// Notes whether the running task woke a task that is still to be enqueued.
    #[inline]
    pub(crate) fn set_arrived(&self, arrived: bool) {
        self.arrived.set(arrived);
    }

    /// Notes that the poll of the task begins.
    #[inline]
    pub(crate) fn begin(&self, task: usize) {
        self.running.set(task);
        self.yields.set(false);
        if !self.goes_on.take() {
            change_extension(self, Extension::picked);
        }
    }

    /// Notes that no task is being polled any longer.
    #[inline]
    pub(crate) fn end(&self) {
        self.running.set(0);
    }

    /// Returns whether the task that was polled last yielded because it was preempted.
    #[inline]
    pub(crate) fn was_preempted(&self) -> bool {
        self.yields.get() && self.preempted.get()
    }

    /// Returns whether the task that was polled last yields because it was preempted, and requests an extension.
    #[inline]
    pub(crate) fn asks_for_extension(&self) -> bool {
        self.was_preempted() && self.extension.get() == Extension::Asked
    }

    /// Returns whether the task that was polled last yielded and stays runnable.
    #[inline]
    pub(crate) fn yields(&self) -> bool {
        self.yields.get()
    }

    /// Returns whether this task is being polled.
    #[inline]
    pub(crate) fn is_running(&self, task: usize) -> bool {
        self.running.get() == task
    }
}

/// Makes this thread a worker of the executor from here on, as the owner of its queue's lock; the executor 0 stands for
/// none.
pub(crate) fn set_worker(executor: u64, worker: usize, owner: Option<Owner>) {
    CURRENT.with(|current| {
        current.owner.set(owner);
        current.executor.set(executor);
        current.worker.set(worker);
    });
}

/// Returns the number of this thread's worker in the executor, if it is one.
#[inline]
pub(crate) fn worker_of(executor: u64) -> Option<usize> {
    CURRENT.with(|current| (current.executor.get() == executor).then(|| current.worker.get()))
}

/// Returns whether the task of the poll in progress waits or has yielded.
#[inline]
pub(crate) fn has_ended() -> bool {
    CURRENT.with(|current| {
        let next = current.next.replace(ManuallyDrop::new(None));
        let has_next = next.is_some();
        let _none = current.next.replace(next);
        has_next || current.ended.get().is_some()
    })
}

/// Returns true if this is the waker of the task that is being polled.
#[inline]
pub(crate) fn is_waker(waker: &Waker) -> bool {
    CURRENT.with(|current| is_waker_of(current, waker))
}

#[inline]
fn is_waker_of(current: &Current, waker: &Waker) -> bool {
    current.running.get() != 0 && current.waker.get() == waker.data().addr()
}

/// Returns whether this thread, as a worker, is polling a task.
#[inline]
pub(crate) fn polls() -> bool {
    CURRENT.with(|current| current.running.get() != 0)
}

/// Notes the waker of the task that is being polled.
#[inline]
pub(crate) fn note_waker(waker: &Waker) {
    CURRENT.with(|current| current.waker.set(waker.data().addr()));
}

/// Notes that the task of `waker`, which was just woken by it, yields and stays runnable. Nothing is noted if the waker
/// does not belong to the task that is being polled, but to a part of it with a waker of its own, or to a future on
/// which the task blocks.
pub(crate) fn set_yields(waker: &Waker, is_preempted: bool) {
    CURRENT.with(|current| {
        if is_waker_of(current, waker) {
            current.yields.set(true);
            current.preempted.set(is_preempted);
        }
    });
}

fn change_extension<R>(current: &Current, change: impl FnOnce(&mut Extension) -> R) -> R {
    let mut extension = current.extension.get();
    let result = change(&mut extension);
    current.extension.set(extension);
    result
}

/// Requests an extension for the end of the current task's slice. Returns the address of the task, or 0 if no task is
/// being polled.
pub(crate) fn ask_for_extension() -> usize {
    CURRENT.with(|current| {
        change_extension(current, Extension::ask);
        current.running.get()
    })
}

/// Withdraws the request of the task with this address. Returns true if the task has to yield, because it used its
/// extension.
pub(crate) fn withdraw_extension(task: usize) -> bool {
    CURRENT.with(|current| {
        // Else it sleeps, or runs elsewhere and has no wish there.
        task != 0 && current.running.get() == task && change_extension(current, Extension::withdraw)
    })
}

/// Lets the task that was polled last continue, if `grant` returns true.
pub(crate) fn grant_extension(grant: impl FnOnce(&mut Extension) -> bool) -> bool {
    CURRENT.with(|current| {
        let goes_on = change_extension(current, grant);
        current.goes_on.set(goes_on);
        goes_on
    })
}

/// Returns whether the running task woke a task that may not be enqueued yet, and resets that mark.
#[inline]
pub(crate) fn take_arrived() -> bool {
    CURRENT.with(|current| current.arrived.take())
}

/// Returns true if this thread is a worker of an executor.
#[inline]
pub(crate) fn is_worker() -> bool {
    CURRENT.with(|current| current.executor.get() != 0)
}

/// Returns the token that identifies this worker to the lock of its queue. The token is meaningless to other locks.
#[inline]
pub(crate) fn owner() -> Option<Owner> {
    CURRENT.with(Current::owner)
}

/// Returns whether this task is being polled.
#[inline]
pub(crate) fn is_running(task: usize) -> bool {
    CURRENT.with(|current| current.is_running(task))
}

/// Returns whether the task that was polled last yielded and stays runnable.
#[inline]
pub(crate) fn yields() -> bool {
    CURRENT.with(Current::yields)
}
