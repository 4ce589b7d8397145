//! A worker as other threads see it: the lock of its scheduler, and the functions that put a task into its queue.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use tickless_core::time::Instant;
use tickless_link::bias::{BiasedLock, Owner};
use tickless_link::lock::{Guard, Lock};
use tickless_sched::hrtick::Switches;

use super::current;
use super::header::{Header, Job};
use super::job::{discard, ends_here};
use super::run_queue::Queued;
use super::scheduler::Scheduler;
use super::stats::{Counters, ExecutorStats};
use crate::host::barrier::System;
use crate::host::thread::now_lower;
use crate::worker::Unparker;

/// The lock of a run queue. The worker acquires it several times for each task. Other threads acquire it when they wake
/// a task of the queue.
pub(crate) type QueueLock = BiasedLock<System>;

/// A worker as other threads see it.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(super) scheduler: Lock<QueueLock, Scheduler>,
    /// The number of queued tasks that may move to another worker, as of the last unlock of the queue.
    waiting: AtomicUsize,
    /// The handle that wakes the worker; set before the executor is returned to its user.
    pub(crate) unparker: OnceLock<Unparker>,
    pub(crate) counters: Counters,
    /// The number of local tasks of the worker that have not finished. Only the worker's thread writes it.
    locals: AtomicUsize,
    /// True if the worker's thread executes the exit handlers of the process, from which it does not return. Set by
    /// that thread, read by threads that choose a worker for a new task.
    exits: AtomicBool,
}

impl Remote {
    pub(crate) fn new(switches: Switches) -> Self {
        Self {
            scheduler: Lock::new(BiasedLock::new(), Scheduler::new(switches)),
            waiting: AtomicUsize::new(0),
            unparker: OnceLock::new(),
            counters: Counters::default(),
            locals: AtomicUsize::new(0),
            exits: AtomicBool::new(false),
        }
    }

    /// Records that this thread, the worker's, executes the exit handlers of the process.
    pub(crate) fn set_exits(&self) {
        // Relaxed: see `takes_tasks`.
        self.exits.store(true, Ordering::Relaxed);
    }

    /// Returns false if the worker polls no more tasks, because its thread ends the process.
    pub(crate) fn takes_tasks(&self) -> bool {
        // Relaxed: nothing goes with it, and a task that is queued a moment too soon is stolen as any other.
        !self.exits.load(Ordering::Relaxed)
    }

    /// Counts a local task that this thread, the worker, spawns.
    pub(crate) fn add_local(&self) {
        // Relaxed, here and below: only the worker's thread writes and reads it.
        self.locals.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts off a finished local task. This thread is the worker.
    pub(crate) fn remove_local(&self) {
        self.locals.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns true if local tasks of the worker have not finished. This thread is the worker.
    pub(crate) fn has_locals(&self) -> bool {
        self.locals.load(Ordering::Relaxed) != 0
    }

    /// Makes the calling thread, which is the worker, the owner of the queue's lock.
    pub(crate) fn claim(&self) -> Option<Owner> {
        self.scheduler.raw().claim()
    }

    /// Gives up the ownership of the lock when the worker ends.
    pub(crate) fn disown(&self, owner: Owner) {
        self.scheduler.raw().disown(owner);
    }

    /// Lists a task of this worker, `home`, when the task waits for something for the first time. Until now the task
    /// was in a queue, or was polled by a worker of its executor, and an abort found the task there.
    #[cold]
    pub(crate) fn enlist(&self, home: usize, header: &Header, waker: &Waker) {
        let listed = waker.clone();
        let is_aborted = self.lock().tasks.enlist(home, header, listed);
        if is_aborted {
            // The thread that aborted it found no place.
            waker.wake_by_ref();
        }
    }

    /// Locks the queue; no user code runs under the lock.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, QueueLock, Scheduler> {
        self.lock_as(current::owner())
    }

    /// Works as [`lock`](Self::lock), as the thread that `owner` names, if that thread is the worker.
    #[inline]
    pub(crate) fn lock_as(&self, owner: Option<Owner>) -> Guard<'_, QueueLock, Scheduler> {
        self.scheduler.lock(owner)
    }

    /// Works as [`lock`](Self::lock), on the path that the worker mostly takes. Returns `None` if that path fails,
    /// which says nothing about the lock.
    #[inline(always)]
    pub(crate) fn try_lock_fast(
        &self,
        owner: Option<Owner>,
    ) -> Option<Guard<'_, QueueLock, Scheduler>> {
        self.scheduler.try_lock(owner)
    }

    /// Changes the queue, and updates the count of waiting tasks.
    #[inline]
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Scheduler) -> R) -> R {
        self.change(self.lock(), change)
    }

    /// Locks as [`with`](Self::with) does. The change gets `now`, or a later time if the thread may have waited for the
    /// lock, because the wait is no task's time.
    #[inline]
    pub(crate) fn with_at<R>(
        &self,
        now: Instant,
        change: impl FnOnce(&mut Scheduler, Instant) -> R,
    ) -> R {
        let Some(scheduler) = self.scheduler.try_lock(current::owner()) else {
            return self.with(|scheduler| change(scheduler, now_lower()));
        };
        self.change(scheduler, |scheduler| change(scheduler, now))
    }

    #[inline]
    fn change<R>(
        &self,
        mut scheduler: Guard<'_, QueueLock, Scheduler>,
        change: impl FnOnce(&mut Scheduler) -> R,
    ) -> R {
        let result = change(&mut scheduler);
        self.count(&scheduler);
        result
    }

    /// Updates the count of waiting tasks; the queue is locked.
    #[inline(always)]
    pub(crate) fn count(&self, scheduler: &Scheduler) {
        // Relaxed: ordered by the fence of `Idle`, and by the lock for those who take it.
        self.waiting
            .store(scheduler.queue.waiting_for_any(), Ordering::Relaxed);
    }

    /// Works as [`count`](Self::count), if `more` tasks wait in addition to those at the last unlock of the queue.
    #[inline(always)]
    pub(crate) fn count_more(&self, scheduler: &Scheduler, more: usize) {
        // Relaxed, both: see `count`; written under the lock alone.
        let waiting = self.waiting.load(Ordering::Relaxed) + more;
        debug_assert_eq!(scheduler.queue.waiting_for_any(), waiting);
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Works as [`count`](Self::count), if no task waits.
    #[inline(always)]
    pub(crate) fn count_none(&self) {
        // Relaxed: see `count`.
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// Queues a task by `queues`; ends the task if the queue is closed.
    ///
    /// After the queue was closed, a local task is returned to its worker, because only the worker's thread may drop
    /// it. The worker waits for such tasks.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        job: Job,
        queues: impl FnOnce(&mut Scheduler, Job) -> Queued,
    ) -> Option<Queued> {
        let queued = self.with(|scheduler| {
            if scheduler.queue.is_closed() {
                return Err(refuse(scheduler, job));
            }
            Ok(queues(scheduler, job))
        });
        match queued {
            Ok(queued) => Some(queued),
            Err(refused) => {
                match refused {
                    Some(job) => discard(job),
                    None => self.unpark(),
                }
                None
            }
        }
    }

    /// Returns the number of tasks that another worker could take over, as read without the lock.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        // Relaxed: see `with`.
        self.waiting.load(Ordering::Relaxed)
    }

    /// Requests that the running task yields.
    pub(crate) fn preempt(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.request_reschedule();
        }
    }

    pub(crate) fn unpark(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }

    /// Adds the counts of the worker to `sum`.
    pub(crate) fn add_to(&self, sum: &mut ExecutorStats) {
        let counters = &self.counters;
        sum.polls += counters.polls.get();
        sum.switches += counters.switches.get();
        sum.preemptions += counters.preemptions.get();
        sum.pulls += counters.pulls.get();
        sum.pushes += counters.pushes.get();
        sum.parks += counters.parks.get();
        let scheduler = self.lock();
        let tick = scheduler.tick.hrtick.stats();
        sum.stolen += scheduler.clock.total().into();
        sum.extensions += scheduler.tick.extensions;
        drop(scheduler);
        sum.tick_starts += tick.asked;
        sum.tick_filtered += tick.filtered;
        sum.ticks += tick.fired;
    }
}

/// Returns a task that a closed queue does not accept, for the caller to end, or leaves a local task to its worker.
#[cold]
fn refuse(scheduler: &mut Scheduler, job: Job) -> Option<Job> {
    if ends_here(job.metadata()) {
        return Some(job);
    }
    scheduler.queue.leave(job)
}
