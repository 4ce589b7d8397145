//! The scheduler of a worker: its run queue, with the clock by which tasks are charged and the tick that ends slices.
//!
//! All of it is under one lock. The [queue](RunQueue) decides which task is next; here its decisions meet the clock and
//! the timers. Each function takes the time at which it is called, as the worker read it last.

use std::pin::Pin;
use std::task::Waker;

use tickless_core::event::Flush;
use tickless_core::time::Instant;
use tickless_sched::RunTime;
use tickless_sched::deadline::Bandwidth;
use tickless_sched::fair::Standing;
use tickless_sched::hrtick::{Decision, Switches};

use super::header::{Entity, Header, Job, Server};
use super::run_queue::{LifoSlot, Queued, RunQueue};
use super::running::Running;
use super::slice_tick::{SliceTick, Timers};
use super::steal_clock::StealClock;
use super::task_list::TaskList;

#[cfg(all(test, not(loom)))]
mod tests;

/// The scheduler.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) queue: RunQueue,
    pub(crate) clock: StealClock,
    pub(crate) tick: SliceTick,
    pub(crate) running: Running,
    /// The running task should give way to one that was filed, and was not asked yet.
    need_resched: bool,
    pub(crate) tasks: TaskList,
}

impl Scheduler {
    pub(crate) fn new(switches: Switches, limit: Bandwidth) -> Self {
        Self {
            queue: RunQueue::new(limit),
            clock: StealClock::nothing(),
            tick: SliceTick::new(switches),
            running: Running::default(),
            need_resched: false,
            tasks: TaskList::default(),
        }
    }

    /// The worker begins.
    pub(crate) fn open(&mut self, timers: Timers, now: Instant) {
        self.tick.timers = Some(timers);
        self.clock = StealClock::open(now);
    }

    /// Accounts up to `now`. Returns the clock of the queue: that of the worker, without the time in which the system
    /// ran others.
    #[inline]
    fn run_time(&mut self, now: Instant) -> RunTime {
        let tick = &self.tick;
        self.clock.run_time(now, || tick.is_own())
    }

    /// Puts the task into the LIFO slot as [`arrive`](Self::arrive) does, if that is all there is to do and the time is
    /// known: returns how many wait then. Returns the task, with nothing changed, in any other case.
    #[inline(always)]
    pub(crate) fn note_arrival(
        &mut self,
        job: Job,
        now: impl FnOnce() -> Option<Instant>,
    ) -> Result<usize, Job> {
        // First, so that it is known behind the look at what arrived before that there is none to be dropped.
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

    /// Wakes a task as [`wake`](Self::wake) does, by the worker itself, which will look at the queue soon: the task is
    /// enqueued then, as of now. Other threads that look before enqueue it themselves.
    ///
    /// The clock is not read where no task runs that could be charged until now.
    pub(crate) fn arrive(&mut self, job: Job, now: impl FnOnce() -> Instant) -> Queued {
        if job.metadata().server().is_some() {
            return self.wake(job, now());
        }
        self.file_arrival();
        let at = if self.queue.fair.is_running() || self.queue.deadlines.is_running() {
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

    /// Files the task that arrived last, if it is not filed yet.
    #[inline]
    fn file_arrival(&mut self) {
        if let Some(LifoSlot { job, at }) = self.queue.take_lifo() {
            self.need_resched |= self.file(job, at);
        }
    }

    /// Files the task that arrived last. Returns true if the running task should give way to that or another one that
    /// was filed.
    pub(crate) fn check_preempt(&mut self) -> bool {
        self.file_arrival();
        std::mem::take(&mut self.need_resched)
    }

    /// Queues a task that is new, was woken, comes from another worker, or gave its turn away.
    pub(crate) fn wake(&mut self, job: Job, now: Instant) -> Queued {
        self.file_arrival();
        let preempts = if job.metadata().server().is_some() {
            self.wake_reserved(job, now)
        } else {
            self.file(job, now) | std::mem::take(&mut self.need_resched)
        };
        Queued {
            preempts,
            waiting: self.queue.waiting(),
        }
    }

    /// Queues a task of the fair class. Returns true if the running task should give way.
    fn file(&mut self, job: Job, now: Instant) -> bool {
        let run_time = self.run_time(now);
        let preempts = self.queue.enqueue(job, run_time);
        preempts | self.tick.enqueued(&self.queue.fair, now)
    }

    /// Queues a task with a deadline. Returns true if the running task should give way.
    #[cold]
    fn wake_reserved(&mut self, job: Job, now: Instant) -> bool {
        let run_time = self.run_time(now);
        let deadlines = &mut self.queue.deadlines;
        let preempts = deadlines.enqueue(job, run_time);
        let preempts = preempts.is_some_and(|queued| queued.preempts);
        if !deadlines.owes_timer() {
            return preempts;
        }
        if !self.tick.is_own() {
            // The worker starts it when it picks next, which it is asked for.
            return true;
        }
        self.tick.start_bandwidth(deadlines, now, run_time);
        preempts
    }

    /// A task was aborted. If it waits for runtime it does not wait for that any more, and the worker has to know.
    pub(crate) fn end(&mut self, header: &Header, now: Instant) -> bool {
        let run_time = self.run_time(now);
        self.queue.deadlines.end(header, run_time)
    }

    /// Works as [`sleep`](Self::sleep), for a task with a deadline.
    #[cold]
    pub(crate) fn sleep_reserved(&mut self, server: Pin<&Server>, now: Instant) {
        let run_time = self.run_time(now);
        self.queue.deadlines.sleep(server, run_time);
    }

    /// The running task, whose entity this is, waits for something.
    pub(crate) fn sleep(&mut self, entity: Pin<&Entity>, now: Instant) {
        self.file_arrival();
        let run_time = self.run_time(now);
        // Refused for a task that gave its turn away, and was queued again.
        let _refused = self.queue.fair.sleep(entity, run_time);
    }

    /// Sleeps as [`sleep_and_pick`](Self::sleep_and_pick) does, if the task that arrived is the only one that waits,
    /// and nothing has to be called for it. Returns `None`, with nothing changed, in any other case.
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

    /// Sleeps as [`sleep_and_pick`](Self::sleep_and_pick) does, if the task that arrived is the only one that waits.
    /// Returns `None`, with nothing changed, in any other case.
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

    /// Sleeps as [`sleep`](Self::sleep) does, and schedules at once, as [`pick`](Self::pick) would do it next: used if
    /// the worker has nothing to do before. `None` if no task waits.
    #[inline(never)]
    pub(crate) fn sleep_and_pick(&mut self, entity: Pin<&Entity>, now: Instant) -> Option<Job> {
        self.file_arrival();
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

    /// Returns whether there is nothing to do before a task of the fair class is picked.
    #[inline(always)]
    fn picks_at_once(&self) -> bool {
        self.queue.picks_at_once() && self.running.is_watched
    }

    /// Makes the arrived task the next one, if it is the only one that waits. The running task, which `from` names,
    /// sleeps.
    #[inline(always)]
    fn hand_over(&mut self, from: Option<Pin<&Entity>>, now: Instant) -> Option<Job> {
        let at = self.queue.lifo_since()?;
        let run_time = self.run_time(now);
        // Another thread that told the queue the time may have been a little ahead.
        let woken = self.clock.shown(at.min(now));
        self.queue.hand_over(from, woken, run_time)
    }

    /// Begins the poll of the picked task at `now`. Returns true if it is the same as before.
    #[inline(always)]
    fn begin(&mut self, job: &Job, now: Instant) -> bool {
        self.need_resched = false;
        self.running.begin(job, now)
    }

    /// Starts the tick for a task of the fair class that was picked, if another one waits.
    #[inline(always)]
    fn start_tick(&mut self, job: &Job, now: Instant) {
        let runnable = self.queue.fair.runnable();
        if runnable > 1 {
            self.tick.start(&self.queue, runnable, job, now);
        }
    }

    /// The running task is over.
    pub(crate) fn finish(&mut self, now: Instant) {
        self.file_arrival();
        let run_time = self.run_time(now);
        self.queue.fair.retire(run_time);
        self.queue.deadlines.finish(run_time);
    }

    /// The task that was held, if it goes on; else it is queued.
    #[cold]
    fn go_on(&mut self, now: Instant) -> Option<Job> {
        self.file_arrival();
        let job = self.queue.held.take()?;
        let is_fair = !self.queue.deadlines.is_running();
        if self.tick.extends(is_fair, self.clock.updated_at) {
            return Some(job);
        }
        let _pick_follows = self.wake(job, now);
        None
    }

    /// `schedule()`: the task that is polled next, with its tick started; and the device settled if the turn before
    /// left that to it (spec ). Called by the worker.
    pub(crate) fn pick(&mut self, now: Instant, owes: bool) -> Option<Job> {
        (self.tick).count_fired(!self.queue.deadlines.is_running());
        if self.queue.held.is_some()
            && let Some(job) = self.go_on(now)
        {
            return Some(job);
        }
        self.tick.hrtick.begin_batch(owes);
        let run_time = self.run_time(now);
        let (job, left) = match self.queue.deadlines.pick(run_time) {
            None => (self.pick_fair(now, run_time), None),
            Some((job, left)) => {
                // The fair class waits, from here on.
                self.file_arrival();
                self.queue.fair.retire(run_time);
                (Some(job), left)
            }
        };
        let (decision, place) = match &job {
            Some(job) if self.begin(job, now) => (Decision::Keep, Flush::SameTask),
            Some(_) => (Decision::Keep, Flush::Switched),
            None => {
                self.running.task = None;
                self.queue.was_empty = true;
                (Decision::CancelIfIdle, Flush::TurnEnd)
            }
        };
        (self.tick).start_bandwidth(&mut self.queue.deadlines, now, run_time);
        match (&job, left) {
            (_, Some(left)) => self.tick.start_deadline(left, now),
            (Some(job), None) => self.start_tick(job, now),
            (None, None) => {}
        }
        if let Some(timers) = &self.tick.timers {
            (self.tick.hrtick).end_batch(decision, place, timers.slice.at(now));
        }
        job
    }

    /// The task of the fair class that is next. The one that ran is over, if it was neither queued nor put to sleep.
    #[inline]
    fn pick_fair(&mut self, now: Instant, run_time: RunTime) -> Option<Job> {
        let handed = self.hand_over(None, now);
        handed.or_else(|| {
            self.file_arrival();
            self.queue.pick(run_time)
        })
    }

    /// Gives a waiting task away, to a worker that has none.
    pub(crate) fn steal(&mut self, now: Instant) -> Option<Job> {
        self.file_arrival();
        let run_time = self.run_time(now);
        self.queue.steal(run_time)
    }

    /// Returns the [standing](RunQueue::standing) of the fair class's tasks.
    pub(crate) fn standing(&mut self, now: Instant) -> Option<(Standing, bool)> {
        self.file_arrival();
        let run_time = self.run_time(now);
        self.queue.standing(run_time)
    }

    /// Gives waiting tasks away to a worker that has some, as long as both are better off.
    pub(crate) fn give_for(&mut self, to: &mut Standing, now: Instant) -> Vec<Job> {
        let run_time = self.run_time(now);
        self.queue.give_for(to, run_time)
    }

    /// Closes the queue. Returns what waited in it, and the timers. All are dropped without the lock: the drop of a
    /// timer waits for its callback, which another thread may execute in a turn that wakes a task of this queue.
    pub(crate) fn close(&mut self) -> (Vec<Job>, Option<Timers>) {
        self.running.task = None;
        (self.queue.close(), self.tick.close())
    }

    /// The wakers of the tasks that are listed here and not over, once the queue is closed.
    pub(crate) fn left_behind(&self) -> Vec<Waker> {
        let listed = self.queue.is_closed().then(|| self.tasks.wakers());
        listed.unwrap_or_default()
    }
}
