//! The runnable tasks of a worker, in the order in which it polls them.

use std::pin::Pin;
use std::task::Waker;

use slab::Slab;
use tickless_core::event::Flush;
use tickless_core::time::{Instant, Span};
use tickless_sched::deadline::{Bandwidth, Rejected, Reservation};
use tickless_sched::fair::Standing;
use tickless_sched::hrtick::{Decision, HrTick, Reschedule, SliceTimer, Switches};
use tickless_sched::load::Load;
use tickless_sched::{FairQueue, RunTime};

use super::classes::Classes;
use super::current;
use super::deadlines::Deadlines;
use super::header::{self, Entity, Header, Job, Origin, Server, Waiting};
use super::steal_clock::StealClock;
use super::tick::TickTimer;

#[cfg(all(test, not(loom)))]
mod tests;

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
struct LifoSlot {
    job: Job,
    /// Time at which the task woke up: it is queued as of then. If no task ran it may be earlier, which is the same.
    at: Instant,
}

/// The task that is being polled.
#[derive(Debug)]
pub(crate) struct Running {
    /// The address of its header, compared and never followed.
    pub(crate) task: usize,
    pub(crate) origin: Origin,
    pub(crate) since: Instant,
    /// True if the task was reported, because it keeps the worker.
    pub(crate) is_reported: bool,
}

impl Running {
    #[inline(never)]
    fn of(header: &Header, since: Instant) -> Self {
        Self {
            task: header.address(),
            origin: header.origin.clone(),
            since,
            is_reported: false,
        }
    }

    #[inline]
    fn has_no_name(&self) -> bool {
        self.origin.name.is_none()
    }

    /// The task of `header` is polled from `since` on. Neither this one nor that has a name, as most tasks: there is
    /// none to be counted, and none to be dropped.
    #[inline]
    fn become_unnamed(&mut self, header: &Header, since: Instant) {
        self.task = header.address();
        self.origin.location = header.origin.location;
        self.since = since;
        self.is_reported = false;
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct RunQueue {
    fair: FairQueue<Waiting>,
    /// The task that the worker woke last: filed before anything else is done with the queue, unless it is just the one
    /// that is picked then.
    arrival: Option<LifoSlot>,
    /// The running task should give way to one that was filed, and was not asked yet.
    need_resched: bool,
    /// Number of waiting tasks that must not be stolen.
    local: usize,
    /// Classes of the waiting tasks.
    classes: Classes,
    tick: HrTick,
    /// The timer of the tick; none before the worker began and behind its end.
    timer: Option<TickTimer>,
    /// The tasks with deadlines, which come first.
    deadlines: Deadlines,
    /// The timer for the next replenishment of one of them; as `timer`.
    bandwidth: Option<TickTimer>,
    stolen: StealClock,
    /// The time up to which the queue has accounted.
    clock_updated_at: Instant,
    running: Option<Running>,
    /// The running task, which gives way and asked to go on a little, until the worker schedules.
    held: Option<Job>,
    /// A waker of each task that waited for something for the first time here, and is not over.
    live: Slab<Waker>,
    /// Slices that were extended.
    extensions: u64,
    /// A watch goes that looks at the queue again and again, until it finds it with nothing to do.
    is_watched: bool,
    /// True if the worker had nothing to do for a time since the worker's share was compared with another one's.
    is_fresh: bool,
    /// True once the worker ended the queue: nothing is queued here any more.
    closed: bool,
    /// Local tasks that other threads were waking while the worker ended the queue. The worker drops them: no other
    /// thread may.
    left: Vec<Job>,
}

impl RunQueue {
    pub(crate) fn new(switches: Switches, limit: Bandwidth) -> Self {
        Self {
            fair: FairQueue::default(),
            arrival: None,
            need_resched: false,
            local: 0,
            classes: Classes::default(),
            tick: HrTick::new(switches),
            timer: None,
            deadlines: Deadlines::new(limit),
            bandwidth: None,
            stolen: StealClock::nothing(),
            clock_updated_at: Instant::ZERO,
            running: None,
            held: None,
            live: Slab::new(),
            extensions: 0,
            is_watched: false,
            is_fresh: true,
            closed: false,
            left: Vec::new(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Tasks that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.fair.waiting() + usize::from(self.arrival.is_some()) + self.deadlines.waiting()
    }

    /// Returns whether the worker has something to do here.
    pub(crate) fn has_work(&self) -> bool {
        self.waiting() > 0 || self.deadlines.owes_timer()
    }

    /// Tasks that wait for their turn and could be given away.
    #[inline(always)]
    pub(crate) fn waiting_for_any(&self) -> usize {
        let arrived = |arrival: &LifoSlot| !arrival.job.metadata().is_local;
        let arrived = self.arrival.as_ref().is_some_and(arrived);
        self.fair.waiting() - self.local + usize::from(arrived)
    }

    /// Lists a task that waits for something for the first time. Returns true if it was aborted by now.
    pub(crate) fn enlist(&mut self, home: usize, header: &Header, waker: Waker) -> bool {
        let slot = self.live.insert(waker);
        header.listing.set_place(home, slot)
    }

    /// Takes a task out of the list, when it is over. The waker is dropped without the lock.
    pub(crate) fn delist(&mut self, slot: usize) -> Option<Waker> {
        self.live.try_remove(slot)
    }

    /// A waker of a task that is listed.
    pub(crate) fn listed(&self, slot: usize) -> Option<&Waker> {
        self.live.get(slot)
    }

    /// The worker begins: these are the timers of its tick and of replenishments.
    pub(crate) fn open(&mut self, timer: TickTimer, bandwidth: TickTimer, now: Instant) {
        self.timer = Some(timer);
        self.bandwidth = Some(bandwidth);
        self.stolen = StealClock::open(now);
    }

    /// The queue's clock: that of the worker, without the time in which the system ran others.
    #[inline]
    fn run_time(&mut self, now: Instant) -> RunTime {
        self.clock_updated_at = now;
        let timer = self.timer.as_ref();
        self.stolen
            .run_time(now, || timer.is_some_and(SliceTimer::is_local))
    }

    /// Time for which the system ran others while the worker could have run.
    pub(crate) fn stolen(&self) -> Span {
        self.stolen.total()
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

    /// Notes the task as [`arrive`](Self::arrive) does, if that is all there is to do and the time is known: returns
    /// how many wait then. Returns the task, with nothing changed, in any other case.
    #[inline(always)]
    pub(crate) fn note_arrival(
        &mut self,
        job: Job,
        now: impl FnOnce() -> Option<Instant>,
    ) -> Result<usize, Job> {
        // First, so that it is known behind the look at what arrived before that there is none to be dropped.
        let at = if self.fair.is_running() {
            now()
        } else {
            Some(self.clock_updated_at)
        };
        let Some(at) = at else {
            return Err(job);
        };
        if self.closed
            || self.arrival.is_some()
            || !self.deadlines.is_empty()
            || job.metadata().server().is_some()
        {
            return Err(job);
        }
        self.arrival = Some(LifoSlot { job, at });
        Ok(self.fair.waiting() + 1)
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
        let at = if self.fair.is_running() || self.deadlines.is_running() {
            now()
        } else {
            self.clock_updated_at
        };
        self.arrival = Some(LifoSlot { job, at });
        Queued {
            preempts: false,
            waiting: self.waiting(),
        }
    }

    /// Files the task that arrived last, if it is not filed yet.
    #[inline]
    fn file_arrival(&mut self) {
        if let Some(LifoSlot { job, at }) = self.arrival.take() {
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
        if job.metadata().server().is_some() {
            return self.wake_reserved(job, now);
        }
        Queued {
            preempts: self.file(job, now) | std::mem::take(&mut self.need_resched),
            waiting: self.waiting(),
        }
    }

    /// Queues a task of the fair class. Returns true if the running task should give way.
    fn file(&mut self, job: Job, now: Instant) -> bool {
        self.begins_to_wait(job.metadata());
        let now = self.run_time(now);
        let queued = header::enqueue(&mut self.fair, job, now);
        let mut preempts =
            queued.is_some_and(|queued| queued.preempts) && !self.deadlines.is_running();
        // The one that runs may have been alone, without a tick. What gave its turn away is picked from next.
        if self.tick.fair_is_on()
            && let Some(timer) = self
                .timer
                .as_ref()
                .map(|timer| timer.at(self.clock_updated_at))
            && !self.tick.is_current(timer)
            && let Some(slice) = self.fair.slice()
        {
            let runnable = self.fair.runnable();
            let asked = self.tick.enqueued(Some(slice), runnable, Load::NONE, timer);
            preempts |= asked == Reschedule::Hard;
        }
        preempts
    }

    /// Works as [`wake`](Self::wake), for a task with a deadline.
    #[cold]
    fn wake_reserved(&mut self, job: Job, now: Instant) -> Queued {
        let run_time = self.run_time(now);
        let queued = self.deadlines.enqueue(job, run_time);
        let mut preempts = queued.is_some_and(|queued| queued.preempts);
        if self.deadlines.owes_timer() {
            match &self.bandwidth {
                Some(timer) if timer.is_local() => {
                    self.deadlines.start_timer(now, run_time, timer);
                }
                // The worker starts it when it picks next, which it is asked for.
                _ => preempts = true,
            }
        }
        Queued {
            preempts,
            waiting: self.waiting(),
        }
    }

    /// Admits a task with a deadline.
    pub(crate) fn admit(&mut self, reservation: Reservation) -> Result<Server, Rejected> {
        self.deadlines.admit(reservation)
    }

    /// Returns the sum of the admitted reservations.
    pub(crate) fn admitted(&self) -> Bandwidth {
        self.deadlines.admitted()
    }

    /// A task with a deadline is over.
    pub(crate) fn dismiss(&mut self, header: &Header) {
        if let Some(server) = header.server() {
            self.deadlines.dismiss(server);
        }
    }

    /// A task was aborted. If it waits for runtime it does not wait for that any more, and the worker has to know.
    pub(crate) fn end(&mut self, header: &Header, now: Instant) -> bool {
        let run_time = self.run_time(now);
        self.deadlines.end(header, run_time)
    }

    /// Returns how often a task with a deadline was throttled.
    pub(crate) fn throttles(&self) -> u64 {
        self.deadlines.throttles()
    }

    /// Works as [`sleep`](Self::sleep), for a task with a deadline.
    #[cold]
    pub(crate) fn sleep_reserved(&mut self, server: Pin<&Server>, now: Instant) {
        let now = self.run_time(now);
        self.deadlines.sleep(server, now);
    }

    /// The running task, whose entity this is, waits for something.
    pub(crate) fn sleep(&mut self, entity: Pin<&Entity>, now: Instant) {
        self.file_arrival();
        let now = self.run_time(now);
        // Refused for a task that gave its turn away, and was queued again.
        let _refused = self.fair.sleep(entity, now);
    }

    /// Sleeps as [`sleep_and_pick`](Self::sleep_and_pick) does, if the task that arrived is the only one that waits,
    /// and nothing has to be called for it. Returns `None`, with nothing changed, in any other case.
    #[inline(always)]
    pub(crate) fn try_sleep_and_hand_over_fast(
        &mut self,
        entity: Pin<&Entity>,
        now: Instant,
    ) -> Option<Job> {
        if self.fair.delayed() != 1 || !self.picks_at_once() {
            return None;
        }
        let run_time = self.stolen.try_run_time_fast(now)?;
        let running = self.running.as_mut().filter(|it| it.has_no_name())?;
        let LifoSlot { job, at } = self.arrival.take()?;
        let woken = self.stolen.try_shown_fast(at);
        if job.metadata().origin.name.is_some()
            || !header::hand_over_in_debt(&mut self.fair, entity, &job, woken, run_time)
        {
            self.arrival = Some(LifoSlot { job, at });
            return None;
        }
        self.clock_updated_at = now;
        // No other one waits, so there is no tick to be started.
        self.tick.leave_over();
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
        if self.fair.waiting() > 0 || !self.picks_at_once() {
            return None;
        }
        let job = self.hand_over(Some(entity), now)?;
        // No other one waits, so there is no tick to be started.
        self.tick.leave_over();
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
        let _refused = self.fair.sleep(entity, run_time);
        if !self.picks_at_once() {
            return None;
        }
        let job = self.pick_waiting(run_time)?;
        let _switched = self.begin(&job, now);
        self.tick.leave_over();
        self.start_tick(&job);
        Some(job)
    }

    /// Returns whether there is nothing to do before a task of the fair class is picked.
    #[inline(always)]
    fn picks_at_once(&self) -> bool {
        self.deadlines.is_empty() && self.held.is_none() && self.is_watched
    }

    /// Makes the arrived task the next one, if it is the only one that waits. The running task, which `from` names,
    /// sleeps.
    #[inline(always)]
    fn hand_over(&mut self, from: Option<Pin<&Entity>>, now: Instant) -> Option<Job> {
        let LifoSlot { job, at } = self.arrival.take()?;
        let run_time = self.run_time(now);
        // Another thread that told the queue the time may have been a little ahead.
        let woken = self.stolen.shown(at.min(now));
        if header::hand_over(&mut self.fair, from, &job, woken, run_time) {
            return Some(job);
        }
        self.arrival = Some(LifoSlot { job, at });
        None
    }

    /// Takes out the task of the fair class that is next.
    #[inline(always)]
    fn pick_waiting(&mut self, run_time: RunTime) -> Option<Job> {
        let Waiting(job) = self.fair.pick(run_time)?;
        self.waits_no_more(job.metadata());
        Some(job)
    }

    /// Begins the poll of the picked task at `now`. Returns true if it is the same as before.
    #[inline(always)]
    fn begin(&mut self, job: &Job, now: Instant) -> bool {
        let header = job.metadata();
        let task = header.address();
        let is_same = self.running.as_ref().is_some_and(|it| it.task == task);
        self.need_resched = false;
        match &mut self.running {
            Some(running) if running.has_no_name() && header.origin.name.is_none() => {
                running.become_unnamed(header, now);
            }
            running => *running = Some(Running::of(header, now)),
        }
        is_same
    }

    /// Starts the tick for a task of the fair class that was picked, if another one waits.
    #[inline]
    fn start_tick(&mut self, job: &Job) {
        let runnable = self.fair.runnable();
        if runnable < 2 {
            return;
        }
        if let (Some(timer), Some(mut slice)) = (&self.timer, self.fair.slice()) {
            let timer = timer.at(self.clock_updated_at);
            if let Some(shortest) = self.classes.shorter_than(job.metadata().class) {
                slice = slice.at_most(Span::from_nanos(shortest).max(timer.shortest));
            }
            // A task is picked with a deadline ahead, so it is never over.
            let _never = self.tick.picked(slice, runnable, Load::NONE, true, timer);
        }
    }

    /// The running task is over.
    pub(crate) fn finish(&mut self, now: Instant) {
        self.file_arrival();
        let now = self.run_time(now);
        self.fair.retire(now);
        self.deadlines.finish(now);
    }

    /// The running task gives way, and asked to go on a little: the worker decides when it schedules.
    pub(crate) fn hold(&mut self, job: Job) {
        self.held = Some(job);
    }

    /// The task that was held, if it goes on; else it is queued.
    #[cold]
    fn goes_on(&mut self, now: Instant) -> Option<Job> {
        let job = self.held.take()?;
        if self.extends() {
            self.extensions += 1;
            return Some(job);
        }
        let _pick_follows = self.wake(job, now);
        None
    }

    /// Returns whether the task that was held goes on, in place of `schedule()`: then its tick is started and the
    /// device settled (FLUSH-7). Nothing has to be masked: the handler of the worker's signal takes no lock.
    fn extends(&mut self) -> bool {
        let (Some(timer), tick) = (&self.timer, &mut self.tick) else {
            return false;
        };
        let timer = timer.at(self.clock_updated_at);
        let ticks = if self.deadlines.is_running() {
            tick.deadline_is_on()
        } else {
            tick.fair_is_on()
        };
        current::grant_extension(|extension| extension.grant(ticks, tick, timer))
    }

    /// `schedule()`: the task that is polled next, with its tick started; and the device settled if the turn before
    /// left that to it (spec ). Called by the worker.
    pub(crate) fn pick(&mut self, now: Instant, owes: bool) -> Option<Job> {
        if let Some(timer) = &self.timer
            && timer.take_fired()
        {
            let _pick_follows = self.tick.fired(!self.deadlines.is_running());
        }
        if self.held.is_some() {
            self.file_arrival();
            if let Some(job) = self.goes_on(now) {
                return Some(job);
            }
        }
        self.tick.begin_batch(owes);
        let run_time = self.run_time(now);
        let (job, left) = match self.deadlines.pick(run_time) {
            None => (self.pick_fair(now, run_time), None),
            Some((job, left)) => {
                // The fair class waits, from here on.
                self.file_arrival();
                self.fair.retire(run_time);
                (Some(job), left)
            }
        };
        let mut place = Flush::TurnEnd;
        if let Some(job) = &job {
            place = if self.begin(job, now) {
                Flush::SameTask
            } else {
                Flush::Switched
            };
        } else {
            self.running = None;
            self.is_fresh = true;
        }
        if let Some(bandwidth) = &self.bandwidth {
            self.deadlines.start_timer(now, run_time, bandwidth);
        }
        if let (Some(left), Some(timer)) = (left, &self.timer) {
            let timer = timer.at(self.clock_updated_at);
            // A task is picked with runtime left, so it is never over.
            let _never = self.tick.picked_deadline(left, timer);
        } else if let Some(job) = &job {
            self.start_tick(job);
        }
        let decision = if job.is_some() {
            Decision::Keep
        } else {
            Decision::CancelIfIdle
        };
        if let Some(timer) = &self.timer {
            self.tick
                .end_batch(decision, place, timer.at(self.clock_updated_at));
        }
        job
    }

    /// The task of the fair class that is next. The one that ran is over, if it was neither queued nor put to sleep.
    #[inline]
    fn pick_fair(&mut self, now: Instant, run_time: RunTime) -> Option<Job> {
        if self.arrival.is_some() {
            if let Some(job) = self.hand_over(None, now) {
                return Some(job);
            }
            self.file_arrival();
        }
        self.pick_waiting(run_time)
    }

    /// Returns the counts of the tick.
    pub(crate) fn tick_stats(&self) -> tickless_sched::hrtick::Stats {
        self.tick.stats()
    }

    /// Returns the cost of the tick's starts since the worker began.
    #[cfg(feature = "internals")]
    pub(crate) fn start_cost(&self) -> super::StartCost {
        let timer = self.timer.as_ref();
        timer.map(TickTimer::start_cost).unwrap_or_default()
    }

    /// Slices that were extended.
    pub(crate) fn extensions(&self) -> u64 {
        self.extensions
    }

    /// The watch looks. Returns true if it goes on, because there is something to do.
    pub(crate) fn is_watched_on(&mut self) -> bool {
        self.is_watched = self.running.is_some() || self.has_work();
        self.is_watched
    }

    /// Returns whether a watch has to be started: none goes.
    #[inline]
    pub(crate) fn needs_watch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// The task that is being polled.
    pub(crate) fn running_mut(&mut self) -> Option<&mut Running> {
        self.running.as_mut()
    }

    /// Gives a waiting task away, to a worker that has none.
    pub(crate) fn steal(&mut self, now: Instant) -> Option<Job> {
        self.file_arrival();
        let run_time = self.run_time(now);
        let Waiting(job) = self.fair.pull(run_time)?;
        self.waits_no_more(job.metadata());
        Some(job)
    }

    /// Returns whether the worker has to schedule before another one can [compare](Self::standing) tasks.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        self.stolen.is_stale(now)
    }

    /// Returns the standing of the fair class's tasks, if there are any, and whether none was there for a time since
    /// they were [compared](Self::shift) last.
    pub(crate) fn standing(&mut self, now: Instant) -> Option<(Standing, bool)> {
        self.file_arrival();
        let run_time = self.run_time(now);
        let standing = self.fair.standing(run_time);
        (!self.closed && !standing.is_empty()).then_some((standing, self.is_fresh))
    }

    /// The tasks of the fair class, which stand at `from`, were compared with others and count to stand at `to`.
    pub(crate) fn shift(&mut self, from: Standing, to: Standing) {
        self.is_fresh = false;
        self.fair.shift(from, to);
    }

    /// Gives waiting tasks away to a worker that has some, as long as both are better off.
    pub(crate) fn give_for(&mut self, to: &mut Standing, now: Instant) -> Vec<Job> {
        let run_time = self.run_time(now);
        let mut given = Vec::new();
        while given.len() < AT_ONCE
            && let Some(Waiting(job)) = self.fair.pull_for(to, run_time)
        {
            self.waits_no_more(job.metadata());
            given.push(job);
        }
        given
    }

    /// Closes the queue: what waited in it, and its timers. All are dropped without the lock: the drop of a timer waits
    /// for its callback, which another thread may execute in a turn that wakes a task of this queue.
    pub(crate) fn close(&mut self) -> (Vec<Job>, [Option<TickTimer>; 2]) {
        self.closed = true;
        self.local = 0;
        self.classes = Classes::default();
        self.running = None;
        let timers = [self.timer.take(), self.bandwidth.take()];
        if let [Some(timer), _] = &timers {
            self.tick.offline(timer);
        }
        let mut waited = self.deadlines.close();
        waited.extend(self.held.take());
        waited.extend(self.arrival.take().map(|arrival| arrival.job));
        // Tasks that sleep and owe time are let go on the way, so no task is dropped with the queue, under its lock.
        waited.extend(std::iter::from_fn(|| {
            self.fair.take_any().map(|waiting| waiting.0)
        }));
        self.fair = FairQueue::default();
        (waited, timers)
    }

    /// The wakers of the tasks that are listed here and not over, once the queue is closed.
    pub(crate) fn left_behind(&self) -> Vec<Waker> {
        let listed = self.closed.then(|| self.wakers());
        listed.unwrap_or_default()
    }

    /// The wakers of the tasks that are listed here and not over.
    pub(crate) fn wakers(&self) -> Vec<Waker> {
        let listed = (&self.live).into_iter();
        listed.map(|(_, waker)| waker.clone()).collect()
    }

    /// Keeps a local task, which another thread woke behind the end of the queue, for its worker to drop.
    pub(crate) fn leave(&mut self, job: Job) {
        debug_assert!(self.closed && job.metadata().is_local);
        self.left.push(job);
    }

    /// Takes the tasks that were [left](Self::leave).
    pub(crate) fn take_left(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.left)
    }
}
