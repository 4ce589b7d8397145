//! The runnable tasks of a worker, in the order in which it polls them.
//!
//! The queue decides, and its caller acts: the queue reads no clock, starts no timer, and refers to no worker. All
//! times that it receives are of the worker's clock, which stops while the system runs other threads.

use std::pin::Pin;

use tickless_core::time::Instant;
use tickless_sched::fair::Standing;
use tickless_sched::{FairQueue, RunTime};

use super::classes::Classes;
use super::header::{self, Entity, Header, Job, Waiting};

/// The number of tasks that one rebalancing step moves.
const AT_ONCE: usize = 16;

/// The result of queueing a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    /// True if the running task should yield.
    pub(crate) preempts: bool,
    /// The number of waiting tasks.
    pub(crate) waiting: usize,
}

/// A task that the worker woke itself, and enqueues when it accesses the queue next.
#[derive(Debug)]
pub(crate) struct LifoSlot {
    pub(crate) job: Job,
    /// The time at which the task woke up: the task is enqueued as of this time. If no task ran, the time may be
    /// earlier, which has the same effect.
    pub(crate) at: Instant,
}

/// The state of the queue: open, or closed.
#[derive(Debug)]
enum State {
    Open,
    /// The worker closed the queue: no task is queued here any more.
    Closed {
        /// The local tasks that other threads were waking at that time. Only the worker may drop them.
        left: Vec<Job>,
    },
}

/// The runnable tasks of a worker.
#[derive(Debug)]
pub(crate) struct RunQueue {
    pub(super) fair: FairQueue<Waiting>,
    /// The task that the worker woke last. The worker enqueues it before any other operation on the queue, unless it is
    /// picked at once.
    lifo: Option<LifoSlot>,
    /// The running task, which yields and requested to continue for a while, until the worker schedules.
    pub(super) held: Option<Job>,
    /// The number of waiting tasks that must not be stolen.
    local: usize,
    /// The classes of the waiting tasks.
    pub(super) classes: Classes,
    /// True if the worker found nothing to do since the queue was [compared](Self::shift) with another queue.
    pub(super) was_empty: bool,
    state: State,
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        Self {
            fair: FairQueue::default(),
            lifo: None,
            held: None,
            local: 0,
            classes: Classes::default(),
            was_empty: true,
            state: State::Open,
        }
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// Returns the number of waiting tasks.
    pub(crate) fn waiting(&self) -> usize {
        self.fair.waiting() + usize::from(self.lifo.is_some())
    }

    /// Returns whether the queue has work for the worker.
    pub(crate) fn has_work(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns the number of waiting tasks that may move to another worker.
    #[inline(always)]
    pub(crate) fn waiting_for_any(&self) -> usize {
        let is_for_any = |slot: &LifoSlot| !slot.job.metadata().is_local;
        let in_slot = self.lifo.as_ref().is_some_and(is_for_any);
        self.fair.waiting() - self.local + usize::from(in_slot)
    }

    /// Counts a task that begins to wait for a worker.
    #[inline]
    fn begins_to_wait(&mut self, header: &Header) {
        self.local += usize::from(header.is_local);
        self.classes.add(header.class);
    }

    /// Counts off a waiting task, which [`begins_to_wait`](Self::begins_to_wait) counted.
    #[inline]
    fn waits_no_more(&mut self, header: &Header) {
        self.local -= usize::from(header.is_local);
        self.classes.remove(header.class);
    }

    /// Puts a task that woke up at `at` into the empty slot. The task is enqueued later.
    #[inline(always)]
    pub(crate) fn set_lifo(&mut self, job: Job, at: Instant) {
        self.lifo = Some(LifoSlot { job, at });
    }

    /// Puts a task into the slot as [`set_lifo`](Self::set_lifo) does, if nothing else has to be done. Returns the
    /// number of waiting tasks then. In any other case changes nothing and returns the task.
    #[inline(always)]
    pub(crate) fn try_set_lifo(&mut self, job: Job, at: Instant) -> Result<usize, Job> {
        if self.is_closed() || self.lifo.is_some() {
            return Err(job);
        }
        self.set_lifo(job, at);
        Ok(self.fair.waiting() + 1)
    }

    /// Removes the task from the slot, for the caller to enqueue it.
    #[inline]
    pub(crate) fn take_lifo(&mut self) -> Option<LifoSlot> {
        self.lifo.take()
    }

    /// Returns the time at which the task in the slot woke up.
    #[inline(always)]
    pub(crate) fn lifo_since(&self) -> Option<Instant> {
        self.lifo.as_ref().map(|slot| slot.at)
    }

    /// Queues a task. Returns true if the running task should yield.
    #[inline]
    pub(crate) fn enqueue(&mut self, job: Job, now: RunTime) -> bool {
        self.begins_to_wait(job.metadata());
        let queued = header::enqueue(&mut self.fair, job, now);
        queued.is_some_and(|queued| queued.preempts)
    }

    /// Returns whether a task can be picked without any other work before.
    #[inline(always)]
    pub(crate) fn picks_at_once(&self) -> bool {
        self.held.is_none()
    }

    /// Removes the next task from the queue and returns it.
    #[inline(always)]
    pub(crate) fn pick(&mut self, now: RunTime) -> Option<Job> {
        let Waiting(job) = self.fair.pick(now)?;
        self.waits_no_more(job.metadata());
        Some(job)
    }

    /// Makes the task in the slot, which woke up at `woken`, the next task, if no other task waits. The running task,
    /// which `from` names, sleeps. Returns `None`, with nothing changed, in any other case.
    #[inline(always)]
    pub(crate) fn hand_over(
        &mut self,
        from: Option<Pin<&Entity>>,
        woken: RunTime,
        now: RunTime,
    ) -> Option<Job> {
        let slot = self.lifo.take()?;
        if header::hand_over(&mut self.fair, from, &slot.job, woken, now) {
            return Some(slot.job);
        }
        self.lifo = Some(slot);
        None
    }

    /// Works as [`hand_over`](Self::hand_over), if both tasks are in debt when they sleep, and the task in the slot has
    /// no name. `shows` is the time of the queue's clock.
    #[inline(always)]
    pub(crate) fn try_hand_over_in_debt(
        &mut self,
        from: Pin<&Entity>,
        shows: impl FnOnce(Instant) -> RunTime,
        now: RunTime,
    ) -> Option<Job> {
        let slot = self.lifo.take()?;
        if slot.job.metadata().origin.name.is_none()
            && header::hand_over_in_debt(&mut self.fair, from, &slot.job, shows(slot.at), now)
        {
            return Some(slot.job);
        }
        self.lifo = Some(slot);
        None
    }

    /// Removes a waiting task, for a worker that has none.
    pub(crate) fn steal(&mut self, now: RunTime) -> Option<Job> {
        let Waiting(job) = self.fair.pull(now)?;
        self.waits_no_more(job.metadata());
        Some(job)
    }

    /// Returns the standing of the tasks, if there are any, and whether the queue was empty for a time since the last
    /// [comparison](Self::shift).
    pub(crate) fn standing(&mut self, now: RunTime) -> Option<(Standing, bool)> {
        let standing = self.fair.standing(now);
        (!self.is_closed() && !standing.is_empty()).then_some((standing, self.was_empty))
    }

    /// Records that the tasks were compared with those of other queues, and moves their standing from
    /// `from` to `to`.
    pub(crate) fn shift(&mut self, from: Standing, to: Standing) {
        self.was_empty = false;
        self.fair.shift(from, to);
    }

    /// Removes waiting tasks, for a worker that has some, as long as the move is better for the tasks of both workers.
    pub(crate) fn give_for(&mut self, to: &mut Standing, now: RunTime) -> Vec<Job> {
        let mut given = Vec::new();
        while given.len() < AT_ONCE
            && let Some(Waiting(job)) = self.fair.pull_for(to, now)
        {
            self.waits_no_more(job.metadata());
            given.push(job);
        }
        given
    }

    /// Closes the queue. Returns the tasks that waited in it, which the caller has to drop without the lock.
    pub(crate) fn close(&mut self) -> Vec<Job> {
        self.state = State::Closed { left: Vec::new() };
        self.local = 0;
        self.classes = Classes::default();
        let mut waited: Vec<Job> = self.held.take().into_iter().collect();
        waited.extend(self.lifo.take().map(|slot| slot.job));
        // Tasks that sleep and owe time are let go on the way, so no task is dropped with the queue, under its lock.
        waited.extend(std::iter::from_fn(|| {
            self.fair.take_any().map(|waiting| waiting.0)
        }));
        self.fair = FairQueue::default();
        waited
    }

    /// Keeps a local task, which another thread woke after the queue was closed, for its worker to drop. Returns the
    /// task if the queue is open.
    pub(crate) fn leave(&mut self, job: Job) -> Option<Job> {
        debug_assert!(job.metadata().is_local);
        match &mut self.state {
            State::Open => return Some(job),
            State::Closed { left } => left.push(job),
        }
        None
    }

    /// Removes and returns the tasks that were [left](Self::leave) here.
    pub(crate) fn take_left(&mut self) -> Vec<Job> {
        match &mut self.state {
            State::Open => Vec::new(),
            State::Closed { left } => std::mem::take(left),
        }
    }
}
