//! The operations with which a worker queues, picks, polls and ends its tasks.
//!
//! Nearly all operations on tasks happen in this module: typically a task wakes another task, and then waits. On these
//! paths a function is usually called last, so that no register is saved for the call.

use std::pin::Pin;
use std::task::Waker;

use tickless_core::time::Instant;
use tickless_link::bias::Owner;
use tickless_link::lock::Guard;

use super::current::Current;
use super::header::{Entity, Job, OwnHeader};
use super::job::discard;
use super::own::OwnWorker;
use super::remote::{QueueLock, Remote};
use super::scheduler::Scheduler;
use super::shared::Shared;
use crate::host::clock::counter;
use crate::host::device;
use crate::host::thread::{Thread, ThreadBase, earliest_slow, now_lower};

/// The state of a worker that polls, with the locks and numbers that its operations need.
pub(crate) struct WorkerContext<'a> {
    shared: &'a Shared,
    place: &'a Remote,
    index: usize,
    base: &'a ThreadBase,
    /// The token by which the lock of the queue recognises this thread.
    owner: Option<Owner>,
    /// The thread-local state of the worker and of the thread. The context keeps this reference, because for the
    /// compiler each access to a thread-local is a call, for which registers are saved.
    current: &'a Current,
    thread: &'a Thread,
}

impl<'a> WorkerContext<'a> {
    /// Creates the context of the worker with the number `index`.
    pub(crate) fn new(
        shared: &'a Shared,
        index: usize,
        base: &'a ThreadBase,
        current: &'a Current,
        thread: &'a Thread,
    ) -> Self {
        Self {
            shared,
            place: &shared.places[index],
            index,
            base,
            owner: current.owner(),
            current,
            thread,
        }
    }

    /// Returns a time that is not ahead of the kernel's clock.
    #[inline(always)]
    fn now_lower(&self) -> Instant {
        let cycles = counter::read();
        let kept = self.thread.reading.earliest_at(cycles);
        kept.unwrap_or_else(|| earliest_slow(cycles))
    }

    /// Returns whether the worker, whose poll ends, has nothing to do before it schedules at `now`: no turn is due, and
    /// no request is pending.
    #[inline(always)]
    fn schedules_at(&self, now: Instant) -> bool {
        let local = self.base.local();
        !local.resched.is_requested()
            && device::due(self.base) > now
            && !self.thread.reading.is_behind_line()
    }

    /// Queues a task on this worker.
    ///
    /// This function makes all its calls last, so that no register is saved for them. If the lock is not biased or the
    /// clock has to be read from the kernel, [`arrive_behind`](Self::arrive_behind) does the work.
    #[inline(always)]
    fn arrive(&self, job: Job) {
        match self.place.try_lock_fast(self.owner) {
            Some(scheduler) => {
                if let Err(job) = self.note(scheduler, job) {
                    self.arrive_behind(job);
                }
            }
            None => self.arrive_behind(job),
        }
    }

    /// Puts a task that arrives at this worker into the LIFO slot, if nothing else has to be done; the queue is locked.
    /// In any other case changes nothing and returns the task.
    #[inline(always)]
    fn note(&self, mut scheduler: Guard<'_, QueueLock, Scheduler>, job: Job) -> Result<(), Job> {
        let is_local = job.metadata().is_local;
        let waiting =
            scheduler.note_arrival(job, || self.thread.reading.earliest_at(counter::read()))?;
        self.place.count_more(&scheduler, usize::from(!is_local));
        drop(scheduler);
        self.current.set_arrived(true);
        // The running task is about to wait, as a rule, and what it woke is next.
        if waiting >= 2 && self.shared.places.len() > 1 {
            self.notify_idle();
        }
        Ok(())
    }

    #[inline(never)]
    fn notify_idle(&self) {
        if self.shared.is_here() {
            self.shared.notify_idle(self.index);
        }
    }

    /// Enqueues as [`arrive`](Self::arrive) does, if the lock is not free, or if the LIFO slot alone is not enough for
    /// the task.
    #[inline(never)]
    fn arrive_behind(&self, job: Job) {
        let Some(job) = self.is_ours(job) else {
            return;
        };
        let Err(job) = self.note(self.place.lock(), job) else {
            return;
        };
        let queued = self
            .place
            .push(job, |scheduler, job| scheduler.arrive(job, now_lower));
        if let Some(queued) = queued {
            self.current.set_arrived(true);
            self.shared.queued(self.index, queued, true);
        }
    }

    /// Queues a task on another worker.
    #[inline(never)]
    fn queue_remote(&self, job: Job) {
        if let Some(job) = self.is_ours(job) {
            self.shared.push_remote(job.metadata().worker(), job);
        }
    }

    /// Returns the task, unless this process is a child that a fork in a poll of this worker made, and the task belongs
    /// to the parent.
    ///
    /// The fast paths do not check for such a child. The child has a copy of the queue, and polls none of the tasks
    /// that are put into or picked from the copy. And if a fast path acquires a lock, no other thread held that lock
    /// when the fork copied it.
    fn is_ours(&self, job: Job) -> Option<Job> {
        if self.shared.is_here() {
            return Some(job);
        }
        std::mem::forget(job);
        None
    }

    /// Queues the task that this worker polled and that yielded. The worker schedules now.
    #[inline(never)]
    fn queue_again(&self, job: Job) {
        let Some(job) = self.is_ours(job) else {
            return;
        };
        let now = now_lower();
        let refused = self.place.with(|scheduler| {
            if scheduler.queue.is_closed() {
                return Some(job);
            }
            if self.current.asks_for_extension() {
                scheduler.queue.held = Some(job);
            } else {
                let _pick_follows = scheduler.wake(job, now);
            }
            None
        });
        match refused {
            None => self.current.set_ended(now),
            Some(job) => discard(job),
        }
    }

    /// Works as [`put_to_sleep_at`](Self::put_to_sleep_at), if the task that arrived last is the next task, and no
    /// other function has to be called for it. Returns true if so; else changes nothing and returns false.
    #[inline(always)]
    fn hand_over(&self, header: &OwnHeader, now: Instant) -> bool {
        let Some(mut scheduler) = self.place.try_lock_fast(self.owner) else {
            return false;
        };
        let Some(job) = scheduler.try_sleep_and_hand_over_fast(header.entity(), now) else {
            return false;
        };
        debug_assert_eq!(scheduler.queue.waiting_for_any(), 0, "no other one waited");
        self.place.count_none();
        drop(scheduler);
        self.current.set_arrived(false);
        self.current.set_next(job);
        true
    }

    /// Puts the polled task, which waits for something, to sleep from `now` on, and picks the next task at once. The
    /// worker has nothing else to do before.
    #[inline(never)]
    fn put_to_sleep_at(&self, header: &OwnHeader, now: Instant) {
        if !self.shared.is_here() {
            return;
        }
        self.current.set_arrived(false);
        match self.sleep_and_pick(header.entity(), now) {
            Some(job) => self.current.set_next(job),
            None => self.current.set_ended(now),
        }
    }

    /// Works as [`put_to_sleep_at`](Self::put_to_sleep_at), if the time is not known, if the worker has something to do
    /// before the pick, or if the task waits for the first time.
    #[inline(never)]
    fn put_to_sleep(&self, header: &OwnHeader, waker: &Waker) {
        if !self.shared.is_here() {
            return;
        }
        if !header.get().listing.is_listed() {
            self.place.enlist(self.index, header.get(), waker);
        }
        let now = self.now_lower();
        if self.schedules_at(now) {
            self.put_to_sleep_at(header, now);
        } else {
            self.put_to_sleep_alone(header, now);
        }
    }

    /// Puts the polled task, which waits for something, to sleep from `now` on.
    #[inline(never)]
    fn put_to_sleep_alone(&self, header: &OwnHeader, now: Instant) {
        if !self.shared.is_here() {
            return;
        }
        self.sleep_alone(header, now);
        self.current.set_ended(now);
    }

    /// Puts the polled task, which waits for something, to sleep, and picks the next task. `entity` is the entity of
    /// the polled task.
    #[inline(always)]
    fn sleep_and_pick(&self, entity: Pin<&Entity>, now: Instant) -> Option<Job> {
        let mut scheduler = self.place.lock_as(self.owner);
        if let Some(job) = scheduler.sleep_and_hand_over(entity, now) {
            debug_assert_eq!(scheduler.queue.waiting_for_any(), 0, "no other one waited");
            self.place.count_none();
            return Some(job);
        }
        let job = scheduler.sleep_and_pick(entity, now);
        self.place.count(&scheduler);
        job
    }

    /// Puts the polled task, which waits for something, to sleep. `header` is the header of that task.
    #[inline]
    fn sleep_alone(&self, header: &OwnHeader, now: Instant) {
        self.place
            .with(|scheduler| scheduler.sleep(header.entity(), now));
    }
}

impl OwnWorker for WorkerContext<'_> {
    fn queue_woken(&self, job: Job) {
        let header = job.metadata();
        let index = header.worker();
        if index != self.index {
            self.queue_remote(job);
        } else if self.current.yields() && self.current.is_running(header.address()) {
            self.queue_again(job);
        } else {
            self.arrive(job);
        }
    }

    fn sleep(&self, header: &OwnHeader, waker: &Waker) {
        let kept = self.thread.reading.earliest_at(counter::read());
        let Some(now) = kept.filter(|_| header.get().listing.is_listed()) else {
            return self.put_to_sleep(header, waker);
        };
        if !self.schedules_at(now) {
            return self.put_to_sleep_alone(header, now);
        }
        if !self.hand_over(header, now) {
            self.put_to_sleep_at(header, now);
        }
    }
}
