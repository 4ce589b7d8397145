//! The scheduler of a worker: its run queue, with the clock by which tasks are charged and the tick that ends slices.
//!
//! One lock protects the whole scheduler. The [queue](RunQueue) decides which task is next; the scheduler connects
//! these decisions with the clock and the timers. The time argument of each function is the worker's last clock
//! reading.

use std::pin::Pin;
use std::task::Waker;

use tickless_core::event::Flush;
use tickless_core::time::Instant;
use tickless_sched::RunTime;
use tickless_sched::fair::Standing;
use tickless_sched::hrtick::{Decision, Switches};

use super::header::{Entity, Job};
use super::run_queue::{LifoSlot, Queued, RunQueue};
use super::running::Running;
use super::slice_tick::SliceTick;
use super::steal_clock::StealClock;
use super::task_list::TaskList;
use super::tick::TickTimer;

#[cfg(all(test, not(loom)))]
mod tests;

/// The scheduler of a worker.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) queue: RunQueue,
    pub(crate) clock: StealClock,
    pub(crate) tick: SliceTick,
    pub(crate) running: Running,
    /// True if a queued task preempts the running one and the running task's next checkpoint has not seen this flag.
    need_resched: bool,
    pub(crate) tasks: TaskList,
}

impl Scheduler {
    pub(crate) fn new(switches: Switches) -> Self {
        Self {
            queue: RunQueue::new(),
            clock: StealClock::nothing(),
            tick: SliceTick::new(switches),
            running: Running::default(),
            need_resched: false,
            tasks: TaskList::default(),
        }
    }

    /// Opens the queue when the worker begins.
    pub(crate) fn open(&mut self, timer: TickTimer, now: Instant) {
        self.tick.timer = Some(timer);
        self.clock = StealClock::open(now);
    }

    /// Accounts up to `now`. Returns the clock of the queue, which is the worker's clock without the time in which the
    /// system ran other threads.
    #[inline]
    fn run_time(&mut self, now: Instant) -> RunTime {
        let tick = &self.tick;
        self.clock.run_time(now, || tick.is_own())
    }

    /// Puts the task into the LIFO slot as [`arrive`](Self::arrive) does, if nothing else has to be done and the time
    /// is known. Returns the number of waiting tasks then. In any other case changes nothing and returns the task.
    #[inline(always)]
    pub(crate) fn note_arrival(
        &mut self,
        job: Job,
        now: impl FnOnce() -> Option<Instant>,
    ) -> Result<usize, Job> {
        // First, so that it is known after the look at what arrived before that there is none to be dropped.
        let at = if self.queue.fair.is_running() {
            now()
        } else {
            Some(self.clock.updated_at)
        };
        match at {
            Some(at) => self.queue.try_set_lifo(job, at),
            None => Err(job),
        }
    }

    /// Wakes a task as [`wake`](Self::wake) does, on the worker itself. The worker accesses the queue soon, and
    /// enqueues the task then, as of now. A thread that accesses the queue before enqueues the task itself.
    ///
    /// The clock is not read if no task runs that could be charged until now.
    pub(crate) fn arrive(&mut self, job: Job, now: impl FnOnce() -> Instant) -> Queued {
        self.enqueue_arrival();
        let at = if self.queue.fair.is_running() {
            now()
        } else {
            self.clock.updated_at
        };
        self.queue.set_lifo(job, at);
        Queued {
            preempts: false,
            waiting: self.queue.waiting(),
        }
    }

    /// Enqueues the task that arrived last, if it is not enqueued yet.
    #[inline]
    fn enqueue_arrival(&mut self) {
        if let Some(LifoSlot { job, at }) = self.queue.take_lifo() {
            self.need_resched |= self.enqueue(job, at);
        }
    }

    /// Enqueues the task that arrived last. Returns true if the running task should yield to that task or to another
    /// one that was enqueued.
    pub(crate) fn check_preempt(&mut self) -> bool {
        self.enqueue_arrival();
        std::mem::take(&mut self.need_resched)
    }

    /// Queues a task that is new, was woken, was moved from another worker, or yielded.
    pub(crate) fn wake(&mut self, job: Job, now: Instant) -> Queued {
        self.enqueue_arrival();
        let preempts = self.enqueue(job, now) | std::mem::take(&mut self.need_resched);
        Queued {
            preempts,
            waiting: self.queue.waiting(),
        }
    }

    /// Queues a task. Returns true if the running task should yield.
    fn enqueue(&mut self, job: Job, now: Instant) -> bool {
        let run_time = self.run_time(now);
        let preempts = self.queue.enqueue(job, run_time);
        preempts | self.tick.enqueued(&self.queue.fair, now)
    }

    /// Puts the running task to sleep, which waits for something; `entity` is the entity of that task.
    pub(crate) fn sleep(&mut self, entity: Pin<&Entity>, now: Instant) {
        self.enqueue_arrival();
        let run_time = self.run_time(now);
        // Refused for a task that gave its turn away, and was queued again.
        let _refused = self.queue.fair.sleep(entity, run_time);
    }

    /// Sleeps as [`sleep_and_pick`](Self::sleep_and_pick) does, if no task waits but the arrived task, and no function
    /// outside of the queue has to be called. In any other case changes nothing and returns `None`.
    #[inline(always)]
    pub(crate) fn try_sleep_and_hand_over_fast(
        &mut self,
        entity: Pin<&Entity>,
        now: Instant,
    ) -> Option<Job> {
        if self.queue.fair.delayed() != 1 || !self.picks_at_once() {
            return None;
        }
        let run_time = self.clock.try_run_time_fast(now)?;
        let running = self.running.unnamed()?;
        let clock = &self.clock;
        let shows = |at| clock.try_shown_fast(at);
        let job = (self.queue).try_hand_over_in_debt(entity, shows, run_time)?;
        self.clock.updated_at = now;
        // No other one waits, so there is no tick to be started.
        self.tick.hrtick.leave_over();
        running.become_unnamed(job.metadata(), now);
        self.need_resched = false;
        Some(job)
    }

    /// Sleeps as [`sleep_and_pick`](Self::sleep_and_pick) does, if no task waits but the arrived task. In any other
    /// case changes nothing and returns `None`.
    #[inline(always)]
    pub(crate) fn sleep_and_hand_over(
        &mut self,
        entity: Pin<&Entity>,
        now: Instant,
    ) -> Option<Job> {
        if self.queue.fair.waiting() > 0 || !self.picks_at_once() {
            return None;
        }
        let job = self.hand_over(Some(entity), now)?;
        // No other one waits, so there is no tick to be started.
        self.tick.hrtick.leave_over();
        let _switched = self.begin(&job, now);
        Some(job)
    }

    /// Sleeps as [`sleep`](Self::sleep) does, and schedules at once, as the next call of [`pick`](Self::pick) would.
    /// Used if the worker has nothing to do between the two. Returns `None` if no task waits.
    #[inline(never)]
    pub(crate) fn sleep_and_pick(&mut self, entity: Pin<&Entity>, now: Instant) -> Option<Job> {
        self.enqueue_arrival();
        let run_time = self.run_time(now);
        // As in `sleep`.
        let _refused = self.queue.fair.sleep(entity, run_time);
        if !self.picks_at_once() {
            return None;
        }
        let job = self.queue.pick(run_time)?;
        let _switched = self.begin(&job, now);
        self.tick.hrtick.leave_over();
        self.start_tick(&job, now);
        Some(job)
    }

    /// Returns whether a task of the fair class can be picked without any other work before.
    #[inline(always)]
    fn picks_at_once(&self) -> bool {
        self.queue.picks_at_once() && self.running.is_watched
    }

    /// Makes the arrived task the next task, if no other task waits. The running task, which `from` names, sleeps.
    #[inline(always)]
    fn hand_over(&mut self, from: Option<Pin<&Entity>>, now: Instant) -> Option<Job> {
        let at = self.queue.lifo_since()?;
        let run_time = self.run_time(now);
        // Another thread that told the queue the time may have been a little ahead.
        let woken = self.clock.shown(at.min(now));
        self.queue.hand_over(from, woken, run_time)
    }

    /// Begins the poll of the picked task at `now`. Returns true if it is the same task as before.
    #[inline(always)]
    fn begin(&mut self, job: &Job, now: Instant) -> bool {
        self.need_resched = false;
        self.running.begin(job, now)
    }

    /// Starts the tick for a picked task, if another task waits.
    #[inline(always)]
    fn start_tick(&mut self, job: &Job, now: Instant) {
        let runnable = self.queue.fair.runnable();
        if runnable > 1 {
            self.tick.start(&self.queue, runnable, job, now);
        }
    }

    /// Ends the account of the running task, which has finished.
    pub(crate) fn finish(&mut self, now: Instant) {
        self.enqueue_arrival();
        let run_time = self.run_time(now);
        self.queue.fair.retire(run_time);
    }

    /// Returns the held task if it continues; else queues it.
    #[cold]
    fn go_on(&mut self, now: Instant) -> Option<Job> {
        self.enqueue_arrival();
        let job = self.queue.held.take()?;
        if self.tick.extends(self.clock.updated_at) {
            return Some(job);
        }
        let _pick_follows = self.wake(job, now);
        None
    }

    /// Returns the task that is polled next, after starting its tick (`schedule()`). Also programs the device if the
    /// turn before deferred its rearm to this call (spec ). Called by the worker.
    pub(crate) fn pick(&mut self, now: Instant, owes: bool) -> Option<Job> {
        self.tick.count_fired();
        if self.queue.held.is_some()
            && let Some(job) = self.go_on(now)
        {
            return Some(job);
        }
        self.tick.hrtick.begin_batch(owes);
        let run_time = self.run_time(now);
        let job = self.pick_next(now, run_time);
        let (decision, place) = match &job {
            Some(job) if self.begin(job, now) => (Decision::Keep, Flush::SameTask),
            Some(_) => (Decision::Keep, Flush::Switched),
            None => {
                self.running.task = None;
                self.queue.was_empty = true;
                (Decision::CancelIfIdle, Flush::TurnEnd)
            }
        };
        if let Some(job) = &job {
            self.start_tick(job, now);
        }
        if let Some(timer) = &self.tick.timer {
            (self.tick.hrtick).end_batch(decision, place, timer.at(now));
        }
        job
    }

    /// Returns the next task. The task that ran has finished if it was neither queued nor put to sleep.
    #[inline]
    fn pick_next(&mut self, now: Instant, run_time: RunTime) -> Option<Job> {
        let handed = self.hand_over(None, now);
        handed.or_else(|| {
            self.enqueue_arrival();
            self.queue.pick(run_time)
        })
    }

    /// Removes a waiting task, for a worker that has none.
    pub(crate) fn steal(&mut self, now: Instant) -> Option<Job> {
        self.enqueue_arrival();
        let run_time = self.run_time(now);
        self.queue.steal(run_time)
    }

    /// Returns the [standing](RunQueue::standing) of the tasks.
    pub(crate) fn standing(&mut self, now: Instant) -> Option<(Standing, bool)> {
        self.enqueue_arrival();
        let run_time = self.run_time(now);
        self.queue.standing(run_time)
    }

    /// Removes waiting tasks, for a worker that has some, as long as the move is better for the tasks of both workers.
    pub(crate) fn give_for(&mut self, to: &mut Standing, now: Instant) -> Vec<Job> {
        let run_time = self.run_time(now);
        self.queue.give_for(to, run_time)
    }

    /// Closes the queue. Returns the tasks that waited in the queue, and the timer. The caller drops all of them
    /// without the lock: the drop of the timer waits for its callback, which another thread may execute in a turn that
    /// wakes a task of this queue.
    pub(crate) fn close(&mut self) -> (Vec<Job>, Option<TickTimer>) {
        self.running.task = None;
        (self.queue.close(), self.tick.close())
    }

    /// Returns the wakers of the tasks that are listed here and have not finished, once the queue is closed.
    pub(crate) fn left_behind(&self) -> Vec<Waker> {
        let listed = self.queue.is_closed().then(|| self.tasks.wakers());
        listed.unwrap_or_default()
    }
}
