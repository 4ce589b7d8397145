//! Thread-local state of a worker: its executor, and the task that it polls.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::task::Waker;

use tickless_core::time::Instant;
use tickless_link::bias::Owner;
use tickless_sched::hrtick::Extension;

use super::header::Job;
/// The words of a thread. Without a destructor, so that reaching them is one addition to the thread pointer.
pub(crate) struct Current {
    /// The executor that this thread is a worker of, by number; 0 if it is none.
    executor: Cell<u64>,
    worker: Cell<usize>,
    /// The task that is being polled: the address of its header, compared and never followed.
    running: Cell<usize>,
    /// The data of its waker, compared and never followed.
    waker: Cell<usize>,
    /// True if the task gives its turn away and stays runnable.
    yields: Cell<bool>,
    /// True if the task was asked to.
    preempted: Cell<bool>,
    /// Extension that the task wants when it has to give way.
    extension: Cell<Extension>,
    /// True if the task was granted that: its next poll is no new turn.
    goes_on: Cell<bool>,
    /// Checkpoints compare the counter with the deadline of the first timer.
    reads_counter: Cell<bool>,
    /// Token by which the lock of the worker's queue knows its owner.
    owner: Cell<Option<Owner>>,
    /// End of the poll, if the task was accounted then and none was picked.
    ended: Cell<Option<Instant>>,
    /// The task that was picked when the poll ended.
    next: Cell<ManuallyDrop<Option<Job>>>,
    /// The running task woke one that is not filed yet, as far as is known.
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
            reads_counter: Cell::new(false),
            owner: Cell::new(None),
            ended: Cell::new(None),
            next: Cell::new(ManuallyDrop::new(None)),
            arrived: Cell::new(false),
        }
    };
}

/// Calls `body` with the words of this thread: for a worker, which then reaches them without looking them up.
pub(crate) fn with<R>(body: impl FnOnce(&Current) -> R) -> R {
    CURRENT.with(body)
}

impl Current {
    /// Returns the token by which the lock of this worker's queue knows its owner. It means nothing to other locks.
    #[inline]
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner.get()
    }

    /// The poll that goes on is over for the task, which was accounted until `now`: it waits, or gave its turn away. No
    /// code of a user's follows before the worker schedules.
    #[inline]
    pub(crate) fn set_ended(&self, now: Instant) {
        self.ended.set(Some(now));
    }

    /// Records the end of the poll as [`set_ended`](Self::set_ended) does, and the next task, which was picked.
    #[inline]
    pub(crate) fn set_next(&self, job: Job) {
        let _none = self.next.replace(ManuallyDrop::new(Some(job)));
    }

    /// The task that was picked at the end of the poll before, if one was.
    #[inline]
    pub(crate) fn take_next(&self) -> Option<Job> {
        ManuallyDrop::into_inner(self.next.replace(ManuallyDrop::new(None)))
    }

    /// Returns the end of the poll before, if that was noted, and forgets it.
    #[inline]
    pub(crate) fn take_ended(&self) -> Option<Instant> {
        self.ended.take()
    }

    /// Notes whether there is a task that was woken by the running one and is to be filed.
    #[inline]
    pub(crate) fn set_arrived(&self, arrived: bool) {
        self.arrived.set(arrived);
    }

    /// The task is being polled from here on.
    #[inline]
    pub(crate) fn begin(&self, task: usize) {
        self.running.set(task);
        self.yields.set(false);
        if !self.goes_on.take() {
            change_extension(self, Extension::picked);
        }
    }

    /// Notes that no task is being polled any more.
    #[inline]
    pub(crate) fn end(&self) {
        self.running.set(0);
    }

    /// Returns whether the task that was polled last gave its turn away because it was asked to.
    #[inline]
    pub(crate) fn was_preempted(&self) -> bool {
        self.yields.get() && self.preempted.get()
    }

    /// Returns whether the task that was polled last gives way because it was asked to, and asks to go on.
    #[inline]
    pub(crate) fn asks_for_extension(&self) -> bool {
        self.was_preempted() && self.extension.get() == Extension::Asked
    }

    /// Returns whether the task that was polled gave its turn away and stays runnable.
    #[inline]
    pub(crate) fn yields(&self) -> bool {
        self.yields.get()
    }

    /// Returns whether this is the task that is being polled.
    #[inline]
    pub(crate) fn is_running(&self, task: usize) -> bool {
        self.running.get() == task
    }
}

/// Makes this thread a worker of the executor from here on, which owns the lock of its queue; 0 for none.
pub(crate) fn set_worker(executor: u64, worker: usize, reads_counter: bool, owner: Option<Owner>) {
    CURRENT.with(|current| {
        current.owner.set(owner);
        current.reads_counter.set(reads_counter);
        current.executor.set(executor);
        current.worker.set(worker);
    });
}

/// Returns the number of this thread's worker in the executor, if it is one.
#[inline]
pub(crate) fn worker_of(executor: u64) -> Option<usize> {
    CURRENT.with(|current| (current.executor.get() == executor).then(|| current.worker.get()))
}

/// Returns whether the poll that goes on is over for the task.
#[inline]
pub(crate) fn has_ended() -> bool {
    CURRENT.with(|current| {
        let next = current.next.replace(ManuallyDrop::new(None));
        let has_next = next.is_some();
        let _none = current.next.replace(next);
        has_next || current.ended.get().is_some()
    })
}

/// Returns true if this is the waker of the task that is being polled, and no foreign one.
#[inline]
pub(crate) fn is_waker(waker: &Waker) -> bool {
    CURRENT.with(|current| is_waker_of(current, waker))
}

#[inline]
fn is_waker_of(current: &Current, waker: &Waker) -> bool {
    current.running.get() != 0 && current.waker.get() == waker.data().addr()
}

/// Returns whether a task is being polled by this thread as a worker.
#[inline]
pub(crate) fn polls() -> bool {
    CURRENT.with(|current| current.running.get() != 0)
}

/// Notes the waker of the task that is being polled.
#[inline]
pub(crate) fn note_waker(waker: &Waker) {
    CURRENT.with(|current| current.waker.set(waker.data().addr()));
}

/// The task of `waker`, which was just woken by it, gives its turn away and stays runnable. Nothing is noted if that is
/// not the task that is being polled, but a part of it with a waker of its own, or a future that the task blocks on.
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

/// The task that is being polled asks to go on for a little when its slice ends; its address, 0 if there is none.
pub(crate) fn ask_for_extension() -> usize {
    CURRENT.with(|current| {
        change_extension(current, Extension::ask);
        current.running.get()
    })
}

/// The task of that address does not ask any more. Returns true if it has to give way, because it went on.
pub(crate) fn withdraw_extension(task: usize) -> bool {
    CURRENT.with(|current| {
        // Else it sleeps, or runs elsewhere and has no wish there.
        task != 0 && current.running.get() == task && change_extension(current, Extension::withdraw)
    })
}

/// The task that was polled last goes on if `grant` says so.
pub(crate) fn grant_extension(grant: impl FnOnce(&mut Extension) -> bool) -> bool {
    CURRENT.with(|current| {
        let goes_on = change_extension(current, grant);
        current.goes_on.set(goes_on);
        goes_on
    })
}

/// Returns whether the running task woke one that may not be enqueued yet, and forgets it.
#[inline]
pub(crate) fn take_arrived() -> bool {
    CURRENT.with(|current| current.arrived.take())
}

/// Returns whether checkpoints of this worker read the counter; `None` for a thread that is none.
#[inline]
pub(crate) fn preemption() -> Option<bool> {
    CURRENT.with(|current| (current.executor.get() != 0).then(|| current.reads_counter.get()))
}

/// Returns the token by which the lock of this worker's queue knows its owner. It means nothing to other locks.
#[inline]
pub(crate) fn owner() -> Option<Owner> {
    CURRENT.with(Current::owner)
}

/// Returns whether this is the task that is being polled.
#[inline]
pub(crate) fn is_running(task: usize) -> bool {
    CURRENT.with(|current| current.is_running(task))
}

/// Returns whether the task that was polled gave its turn away and stays runnable.
#[inline]
pub(crate) fn yields() -> bool {
    CURRENT.with(Current::yields)
}
