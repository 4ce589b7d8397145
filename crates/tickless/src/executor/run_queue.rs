//! The runnable tasks of a worker, in the order in which it polls them.
//!
//! The queue decides, and its caller acts: it reads no clock, starts no timer, and knows no worker. Each time that it
//! is given is one of the worker's clock, which stands while the system runs others.

use std::pin::Pin;

use tickless_core::time::Instant;
use tickless_sched::deadline::Bandwidth;
use tickless_sched::fair::Standing;
use tickless_sched::{FairQueue, RunTime};

use super::classes::Classes;
use super::deadlines::Deadlines;
use super::header::{self, Entity, Header, Job, Waiting};

/// Number of tasks that one rebalancing step moves.
const AT_ONCE: usize = 16;

/// Result of queueing, and what it requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    /// The running task should give way.
    pub(crate) preempts: bool,
    /// Tasks that wait for their turn.
    pub(crate) waiting: usize,
}

/// A task that the worker woke itself, and will queue when it looks next.
#[derive(Debug)]
pub(crate) struct LifoSlot {
    pub(crate) job: Job,
    /// Time at which the task woke up: it is queued as of then. If no task ran it may be earlier, which is the same.
    pub(crate) at: Instant,
}

/// Records whether tasks are queued.
#[derive(Debug)]
enum State {
    Open,
    /// The worker ended the queue: nothing is queued here any more.
    Closed {
        /// Local tasks that other threads were waking at that time. The worker drops them: no other thread may.
        left: Vec<Job>,
    },
}

/// The queue.
#[derive(Debug)]
pub(crate) struct RunQueue {
    pub(super) fair: FairQueue<Waiting>,
    /// The tasks with deadlines, which come first.
    pub(super) deadlines: Deadlines,
    /// The task that the worker woke last: filed before anything else is done with the queue, unless it is just the one
    /// that is picked then.
    lifo: Option<LifoSlot>,
    /// The running task, which gives way and asked to go on a little, until the worker schedules.
    pub(super) held: Option<Job>,
    /// Number of waiting tasks that must not be stolen.
    local: usize,
    /// Classes of the waiting tasks.
    pub(super) classes: Classes,
    /// True if the worker found nothing to do since the queue was [compared](Self::shift) with another one.
    pub(super) was_empty: bool,
    state: State,
}

impl RunQueue {
    pub(crate) fn new(limit: Bandwidth) -> Self {
        Self {
            fair: FairQueue::default(),
            deadlines: Deadlines::new(limit),
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

    /// Tasks that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.fair.waiting() + usize::from(self.lifo.is_some()) + self.deadlines.waiting()
    }

    /// Returns whether the worker has something to do here.
    pub(crate) fn has_work(&self) -> bool {
        self.waiting() > 0 || self.deadlines.owes_timer()
    }

    /// Tasks that wait for their turn and could be given away.
    #[inline(always)]
    pub(crate) fn waiting_for_any(&self) -> usize {
        let is_for_any = |slot: &LifoSlot| !slot.job.metadata().is_local;
        let in_slot = self.lifo.as_ref().is_some_and(is_for_any);
        self.fair.waiting() - self.local + usize::from(in_slot)
    }

    /// Counts a task that waits for its turn from here on.
    #[inline]
    fn begins_to_wait(&mut self, header: &Header) {
        self.local += usize::from(header.is_local);
        self.classes.add(header.class);
    }

    /// Ends a wait, as [`begins_to_wait`](Self::begins_to_wait) begins one.
    #[inline]
    fn waits_no_more(&mut self, header: &Header) {
        self.local -= usize::from(header.is_local);
        self.classes.remove(header.class);
    }

    /// Puts a task that woke up at `at` into the empty slot, from which it is filed later.
    #[inline(always)]
    pub(crate) fn set_lifo(&mut self, job: Job, at: Instant) {
        self.lifo = Some(LifoSlot { job, at });
    }

    /// Puts a task into the slot as [`set_lifo`](Self::set_lifo) does, if that is all there is to do: returns how many
    /// wait then. Returns the task, with nothing changed, in any other case.
    #[inline(always)]
    pub(crate) fn try_set_lifo(&mut self, job: Job, at: Instant) -> Result<usize, Job> {
        if self.is_closed()
            || self.lifo.is_some()
            || !self.deadlines.is_empty()
            || job.metadata().server().is_some()
        {
            return Err(job);
        }
        self.set_lifo(job, at);
        Ok(self.fair.waiting() + 1)
    }

    /// Takes the task out of the slot, for the caller to file it.
    #[inline]
    pub(crate) fn take_lifo(&mut self) -> Option<LifoSlot> {
        self.lifo.take()
    }

    /// Returns the time at which the task in the slot woke up.
    #[inline(always)]
    pub(crate) fn lifo_since(&self) -> Option<Instant> {
        self.lifo.as_ref().map(|slot| slot.at)
    }

    /// Queues a task of the fair class. Returns true if the running task should give way.
    #[inline]
    pub(crate) fn enqueue(&mut self, job: Job, now: RunTime) -> bool {
        self.begins_to_wait(job.metadata());
        let queued = header::enqueue(&mut self.fair, job, now);
        queued.is_some_and(|queued| queued.preempts) && !self.deadlines.is_running()
    }

    /// Returns whether there is nothing to do before a task of the fair class is picked.
    #[inline(always)]
    pub(crate) fn picks_at_once(&self) -> bool {
        self.deadlines.is_empty() && self.held.is_none()
    }

    /// Takes out the task of the fair class that is next.
    #[inline(always)]
    pub(crate) fn pick(&mut self, now: RunTime) -> Option<Job> {
        let Waiting(job) = self.fair.pick(now)?;
        self.waits_no_more(job.metadata());
        Some(job)
    }

    /// Makes the task in the slot, which woke up at `woken`, the next one, if it is the only one that waits. The
    /// running task, which `from` names, sleeps. Returns `None`, with nothing changed, in any other case.
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

    /// Works as [`hand_over`](Self::hand_over), if both tasks sleep in debt when they sleep, and the one in the slot
    /// has no name. `shows` is the clock of the queue.
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

    /// Gives a waiting task away, to a worker that has none.
    pub(crate) fn steal(&mut self, now: RunTime) -> Option<Job> {
        let Waiting(job) = self.fair.pull(now)?;
        self.waits_no_more(job.metadata());
        Some(job)
    }

    /// Returns the standing of the fair class's tasks, if there are any, and whether none was there for a time since
    /// they were [compared](Self::shift) last.
    pub(crate) fn standing(&mut self, now: RunTime) -> Option<(Standing, bool)> {
        let standing = self.fair.standing(now);
        (!self.is_closed() && !standing.is_empty()).then_some((standing, self.was_empty))
    }

    /// The tasks of the fair class, which stand at `from`, were compared with others and count to stand at `to`.
    pub(crate) fn shift(&mut self, from: Standing, to: Standing) {
        self.was_empty = false;
        self.fair.shift(from, to);
    }

    /// Gives waiting tasks away to a worker that has some, as long as both are better off.
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

    /// Closes the queue. Returns what waited in it, to be dropped without the lock.
    pub(crate) fn close(&mut self) -> Vec<Job> {
        self.state = State::Closed { left: Vec::new() };
        self.local = 0;
        self.classes = Classes::default();
        let mut waited = self.deadlines.close();
        waited.extend(self.held.take());
        waited.extend(self.lifo.take().map(|slot| slot.job));
        // Tasks that sleep and owe time are let go on the way, so no task is dropped with the queue, under its lock.
        waited.extend(std::iter::from_fn(|| {
            self.fair.take_any().map(|waiting| waiting.0)
        }));
        self.fair = FairQueue::default();
        waited
    }

    /// Keeps a local task, which another thread woke behind the end of the queue, for its worker to drop. Returns the
    /// task if the queue is open.
    pub(crate) fn leave(&mut self, job: Job) -> Option<Job> {
        debug_assert!(job.metadata().is_local);
        match &mut self.state {
            State::Open => return Some(job),
            State::Closed { left } => left.push(job),
        }
        None
    }

    /// Takes the tasks that were [left](Self::leave).
    pub(crate) fn take_left(&mut self) -> Vec<Job> {
        match &mut self.state {
            State::Open => Vec::new(),
            State::Closed { left } => std::mem::take(left),
        }
    }
}
