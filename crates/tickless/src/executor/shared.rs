//! The state that the workers of an executor share, and the path of a woken task into a run queue.
//!
//! # Ground rules
//!
//! - A worker's [`Scheduler`] has a lock. A thread holds one of them at a time, and nothing that belongs to a user runs
//!   under it: no waker, no future, no destructor of either.
//! - A task is in one queue, or in the hand of one thread: that which woke it, polls it, or carries it from one worker
//!   to another.
//! - A worker that has nothing to do says so in [`Idle`], looks again, and parks; a thread that queues a task counts it
//!   first and looks for idle workers then.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use tickless_core::time::Instant;
use tickless_link::bias::{BiasedLock, Owner};
use tickless_link::lock::{Guard, Lock};
use tickless_link::sync::CachePadded;
use tickless_sched::deadline::Bandwidth;
use tickless_sched::hrtick::Switches;

use super::blocking::Pool;
use super::current;
use super::drawn::DrawnQueue;
use super::header::{Header, Job, Keeper};
use super::idle::Idle;
use super::io::IoReactor;
use super::job::{discard, ends_here};
use super::on_base::OnBase;
use super::run_queue::Queued;
use super::scheduler::Scheduler;
use super::settings::{PanicPolicy, Settings};
use super::stats::{Counters, ExecutorStats};
use super::steal_order::StealOrder;
use crate::host::barrier::System;
use crate::host::isolation::locks::OwnedLocks;
use crate::host::process;
use crate::host::thread::{Thread, now_lower, with_thread};
use crate::time::virtual_time::draw::Draw;
use crate::time::virtual_time::runtime::{Others, Runtime};
use crate::worker::Unparker;

/// The lock of a queue. The worker takes it several times for each task, other threads when they wake one.
pub(crate) type QueueLock = BiasedLock<System>;

/// A worker as others see it.
#[derive(Debug)]
pub(crate) struct Remote {
    scheduler: Lock<QueueLock, Scheduler>,
    /// Tasks that wait in the queue and could be given away, as it was left last.
    waiting: AtomicUsize,
    /// Handle that wakes the worker; set before the executor is handed out.
    pub(crate) unparker: OnceLock<Unparker>,
    pub(crate) counters: Counters,
    pub(crate) on_base: OnBase,
    /// Local tasks of the worker that are not over. Written by the worker's thread alone.
    locals: AtomicUsize,
    /// True if the worker's thread executes the exit handlers of the process, from which it does not return. Set by
    /// that thread, read by those that choose a worker for a new task.
    exits: AtomicBool,
}

impl Remote {
    fn new(switches: Switches, limit: Bandwidth) -> Self {
        Self {
            scheduler: Lock::new(BiasedLock::new(), Scheduler::new(switches, limit)),
            waiting: AtomicUsize::new(0),
            unparker: OnceLock::new(),
            counters: Counters::default(),
            on_base: OnBase::default(),
            locals: AtomicUsize::new(0),
            exits: AtomicBool::new(false),
        }
    }

    /// Returns false if the worker polls no task any more, because its thread ends the process.
    pub(crate) fn takes_tasks(&self) -> bool {
        // Relaxed: nothing goes with it, and a task that is queued a moment too soon is stolen as any other.
        !self.exits.load(Ordering::Relaxed)
    }

    /// Counts a local task that the worker, which this thread is, spawns.
    pub(crate) fn add_local(&self) {
        // Relaxed, here and below: only the worker's thread writes and reads it.
        self.locals.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if local tasks of the worker, which this thread is, are not over.
    pub(crate) fn has_locals(&self) -> bool {
        self.locals.load(Ordering::Relaxed) != 0
    }

    /// The calling thread is the worker, and owns the lock of the queue from here on.
    pub(crate) fn claim(&self) -> Option<Owner> {
        self.scheduler.raw().claim()
    }

    /// The worker ends.
    pub(crate) fn disown(&self, owner: Owner) {
        self.scheduler.raw().disown(owner);
    }

    /// Locks the queue; no user code runs under it.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, QueueLock, Scheduler> {
        self.lock_as(current::owner())
    }

    /// Works as [`lock`](Self::lock), by the thread that `owner` says, if it is the worker.
    #[inline]
    pub(crate) fn lock_as(&self, owner: Option<Owner>) -> Guard<'_, QueueLock, Scheduler> {
        self.scheduler.lock(owner)
    }

    /// Works as [`lock`](Self::lock), in the way in which the worker mostly takes it; `None` says nothing.
    #[inline(always)]
    pub(crate) fn try_lock_fast(
        &self,
        owner: Option<Owner>,
    ) -> Option<Guard<'_, QueueLock, Scheduler>> {
        self.scheduler.try_lock_fast(owner)
    }

    /// Changes the queue, and counts what waits in it.
    #[inline]
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Scheduler) -> R) -> R {
        self.change(self.lock(), change)
    }

    /// Locks as [`with`](Self::with) does, at `now`, or later if the lock may have been waited for, which is no task's
    /// time.
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

    /// Counts what waits in the queue, which is locked.
    #[inline(always)]
    pub(crate) fn count(&self, scheduler: &Scheduler) {
        // Relaxed: ordered by the fence of `Idle`, and by the lock for those who take it.
        self.waiting
            .store(scheduler.queue.waiting_for_any(), Ordering::Relaxed);
    }

    /// Works as [`count`](Self::count), if so many more wait than when the queue was left last.
    #[inline(always)]
    pub(crate) fn count_more(&self, scheduler: &Scheduler, more: usize) {
        // Relaxed, both: see `count`; written under the lock alone.
        let waiting = self.waiting.load(Ordering::Relaxed) + more;
        debug_assert_eq!(scheduler.queue.waiting_for_any(), waiting);
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Works as [`count`](Self::count), if none waits.
    #[inline(always)]
    pub(crate) fn count_none(&self) {
        // Relaxed: see `count`.
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// Queues a task as `queues` does it; ends it where none is taken any more.
    ///
    /// Behind the end of the queue a local task goes back to its worker, whose thread alone may drop it. The worker
    /// waits for it.
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

    /// Tasks that another worker could take over, as far as is known without the lock.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        // Relaxed: see `with`.
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn unpark(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }
}

/// Returns a task that a closed queue does not take, for the caller to end, or leaves it to its worker.
#[cold]
fn refuse(scheduler: &mut Scheduler, job: Job) -> Option<Job> {
    if ends_here(job.metadata()) {
        return Some(job);
    }
    scheduler.queue.leave(job)
}

impl OwnedLocks for Shared {
    fn take_each_as_stranger(&self) {
        if self.is_here() {
            for place in &self.places {
                drop(place.scheduler.lock(None));
            }
        }
    }
}

/// State that the handles and the workers of an executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tells executors apart.
    pub(crate) id: u64,
    pub(crate) places: Box<[CachePadded<Remote>]>,
    pub(crate) idle: Idle,
    pub(crate) reactor: Arc<IoReactor>,
    /// Distances between workers, if they are pinned; set before the executor is handed out.
    pub(crate) near: OnceLock<StealOrder>,
    /// Tasks that are not over.
    live: AtomicUsize,
    /// True if no task is taken any more.
    closing: AtomicBool,
    /// Workers end.
    stopping: AtomicBool,
    /// The worker that gets the next task of a thread that is none.
    next: AtomicUsize,
    /// The process that the workers belong to, by the forks before it.
    forks: u32,
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    /// The ready tasks, if a seed draws their order; else they are in the queues of the places.
    pub(crate) drawn: Option<DrawnQueue>,
    /// Runtime that the executor's clock belongs to.
    pub(crate) runtime: Arc<Runtime>,
}

impl Shared {
    pub(crate) fn new(workers: usize, settings: Settings) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let switches = settings.switches();
        let runtime = Arc::new(Runtime::new(workers));
        Self {
            // Relaxed: a number that is given once.
            id: NUMBERS.fetch_add(1, Ordering::Relaxed),
            places: (0..workers)
                .map(|_| CachePadded(Remote::new(switches, settings.deadline_limit)))
                .collect(),
            idle: Idle::new(workers),
            reactor: Arc::new(IoReactor::new()),
            near: OnceLock::new(),
            live: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            forks: process::forks(),
            pool: Pool::new(settings.blocking_threads, Arc::clone(&runtime)),
            settings,
            drawn: None,
            runtime,
        }
    }

    /// Lets `seed` draw the order of ready tasks, the workers that poll them, and the order of timers that have one
    /// deadline.
    pub(crate) fn draw_by(&mut self, seed: u64) {
        self.drawn = Some(DrawnQueue::new(Draw::new(seed, 0), self.places.len()));
        self.runtime.set_ordered();
        self.runtime.clock().set_draw(Draw::new(seed, 1));
    }

    /// Creates an executor that no thread works for.
    #[cfg(test)]
    pub(crate) fn for_tests(workers: usize) -> Handle {
        Arc::new(Self::new(workers, Settings::default()))
    }

    /// Returns whether this process has the workers: the child of a fork has not, and may find any of the locks held.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.forks == process::forks()
    }

    /// Returns the worker that a new task starts on: that of the thread that spawns it, else each in turn. None if the
    /// only worker's thread executes the exit handlers of the process.
    pub(crate) fn home(&self) -> Option<usize> {
        match current::worker_of(self.id) {
            Some(worker) if !self.exits_here() => Some(worker),
            _ => self.next_in_turn(),
        }
    }

    fn next_in_turn(&self) -> Option<usize> {
        let count = self.places.len();
        // Relaxed: any of them will do.
        let first = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let mut workers = (first..count).chain(0..first);
        workers.find(|&worker| self.places[worker].takes_tasks())
    }

    /// Returns true if this thread is a worker that executes the exit handlers of the process. Other workers see that,
    /// so that they steal the tasks that wait here.
    pub(crate) fn exits_here(&self) -> bool {
        let Some(worker) = current::worker_of(self.id) else {
            return false;
        };
        if !with_thread(Thread::is_at_its_end) {
            return false;
        }
        // Relaxed: see `takes_tasks`.
        self.places[worker].exits.store(true, Ordering::Relaxed);
        if self.is_here() {
            self.notify_idle(worker);
        }
        true
    }

    /// Queues a task on a worker that this thread is not.
    #[inline(never)]
    pub(crate) fn push_remote(&self, index: usize, job: Job) {
        let now = now_lower();
        let queued = self.places[index].push(job, |scheduler, job| scheduler.wake(job, now));
        if let Some(queued) = queued {
            self.queued(index, queued, false);
        }
    }

    /// Files what the running task of this worker woke. Returns true if that task should give way.
    pub(crate) fn check_preempt(&self) -> bool {
        let worker = current::worker_of(self.id).filter(|_| self.is_here());
        worker.is_some_and(|worker| self.places[worker].with(Scheduler::check_preempt))
    }

    /// A task was queued on a worker, which may have to know, and so may one that is idle.
    #[inline]
    pub(crate) fn queued(&self, index: usize, queued: Queued, is_here: bool) {
        if queued.preempts {
            self.preempt(index);
        }
        if is_here && (queued.waiting < 2 || self.places.len() == 1) {
            // The running task is about to wait, as a rule, and what it woke is next.
            return;
        }
        if !self.idle.any() {
            return;
        }
        if !is_here && self.idle.claim(index) {
            self.places[index].unpark();
        } else if let Some(near) = self.claim_near(index) {
            self.places[near].unpark();
        }
    }

    /// Notifies an idle worker, if there is one, which then pulls.
    #[inline(never)]
    pub(crate) fn notify_idle(&self, index: usize) {
        if self.places.len() > 1
            && self.idle.any()
            && let Some(near) = self.claim_near(index)
        {
            self.places[near].unpark();
        }
    }

    /// Notifies a worker about a new descriptor, if none waits for descriptors.
    pub(crate) fn attend(&self) {
        if !self.reactor.is_unattended() {
            return;
        }
        if self.idle.any()
            && let Some(worker) = self.idle.claim_near(0)
        {
            self.places[worker].unpark();
            return;
        }
        // They look when they schedule, and from then on from time to time.
        for index in 0..self.places.len() {
            self.preempt(index);
        }
    }

    /// Asks the running task of a worker to give way.
    fn preempt(&self, index: usize) {
        if let Some(unparker) = self.places[index].unparker.get() {
            unparker.request_reschedule();
        }
    }

    /// Claims the idle worker that is nearest to this one, if there is one.
    fn claim_near(&self, index: usize) -> Option<usize> {
        let Some(near) = self.near.get() else {
            return self.idle.claim_near(index);
        };
        let mut others = near.others(index).iter().copied();
        others.find(|&other| self.idle.is_idle(other) && self.idle.claim(other))
    }

    /// The other workers, those first that are to be asked first.
    fn others(&self, index: usize) -> impl Iterator<Item = usize> {
        let count = self.places.len();
        let near = self.near.get().map(|near| near.others(index));
        (1..count).map(move |step| near.map_or((index + step) % count, |near| near[step - 1]))
    }

    /// Takes a task over from another worker, the nearest that has one, for `index`, which has none.
    pub(crate) fn pull(&self, index: usize) -> bool {
        for victim in self.others(index) {
            let place = &self.places[victim];
            if place.waiting() == 0 {
                continue;
            }
            let now = now_lower();
            let Some(job) = place.with(|scheduler| scheduler.steal(now)) else {
                continue;
            };
            self.take_over(index, job);
            return true;
        }
        false
    }

    /// The task, which waited at another worker, waits at `index`, this one.
    fn take_over(&self, index: usize, job: Job) {
        job.metadata().set_worker(index);
        let place = &self.places[index];
        let _pick_follows = place.push(job, |scheduler, job| scheduler.wake(job, now_lower()));
        place.counters.pulls.add_one();
    }

    /// Evens the shares of this worker's tasks and of those of another busy one out; `turn` says which.
    #[cold]
    pub(crate) fn balance(&self, index: usize, turn: usize) {
        let busy = |&other: &usize| !self.idle.is_idle(other);
        let others = self.places.len() - 1;
        let Some(other) = self.others(index).nth(turn % others).filter(busy) else {
            return;
        };
        let (here, there) = (&self.places[index], &self.places[other]);
        let Some((own, is_fresh)) = here.with(|scheduler| scheduler.standing(now_lower())) else {
            return;
        };
        let compared = there.with(|scheduler| {
            let now = now_lower();
            if scheduler.clock.is_stale(now) {
                // A task computes there alone, and no tick makes the worker look at what was stolen from it.
                self.preempt(other);
                return None;
            }
            let (stands, was_fresh) = scheduler.standing(now)?;
            let theirs = match (is_fresh, was_fresh) {
                (true, _) => stands,
                (false, true) => stands.level_with(own),
                (false, false) => stands.caught_up(own),
            };
            scheduler.queue.shift(stands, theirs);
            let ours = if is_fresh {
                own.level_with(theirs)
            } else {
                own.caught_up(theirs)
            };
            let mut stands = ours;
            Some((ours, theirs, scheduler.give_for(&mut stands, now)))
        });
        let Some((ours, mut theirs, pulled)) = compared else {
            return;
        };
        let pushed = here.with(|scheduler| {
            scheduler.queue.shift(own, ours);
            if pulled.is_empty() {
                scheduler.give_for(&mut theirs, now_lower())
            } else {
                Vec::new()
            }
        });
        for job in pulled {
            self.take_over(index, job);
        }
        for job in pushed {
            job.metadata().set_worker(other);
            here.counters.pushes.add_one();
            self.push_remote(other, job);
        }
    }

    /// Returns whether a task waits in any queue. Called by a worker after it announced that it is idle.
    pub(crate) fn has_work(&self, index: usize) -> bool {
        self.places[index].with(|scheduler| scheduler.queue.has_work())
            || self.places.iter().any(|place| place.waiting() > 0)
            || self.drawn.as_ref().is_some_and(|drawn| !drawn.is_empty())
    }

    /// The worker that moves the clock: the only one, or the one that has the turn where the order is drawn.
    fn turn(&self) -> usize {
        self.drawn.as_ref().map_or(0, DrawnQueue::turn)
    }

    /// Counts a task more. Returns true if it is taken. One that is not is ended at once, which counts it off.
    pub(crate) fn admit(&self) -> bool {
        // SeqCst, both: a shutdown that finds no task has every later one refused, see `close`.
        self.live.fetch_add(1, Ordering::SeqCst);
        if self.closing.load(Ordering::SeqCst) || !self.is_here() {
            return false;
        }
        true
    }

    /// A task is over.
    fn retire(&self) {
        // SeqCst: see `admit`.
        let was = self.live.fetch_sub(1, Ordering::SeqCst);
        if was == 1 && self.closing.load(Ordering::SeqCst) {
            self.settings.over.notify();
        }
    }

    /// Tasks that are not over.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    /// Closes the executor: no task is taken any more.
    pub(crate) fn close(&self) {
        // SeqCst: see `admit`.
        self.closing.store(true, Ordering::SeqCst);
    }

    /// The workers end when they look next.
    pub(crate) fn stop(&self) {
        self.close();
        // Release: pairs with the Acquire in `stops`.
        self.stopping.store(true, Ordering::Release);
        for (index, place) in self.places.iter().enumerate() {
            self.preempt(index);
            place.unpark();
        }
        self.reactor.close();
    }

    /// Returns whether the workers end.
    #[inline]
    pub(crate) fn stops(&self) -> bool {
        // Acquire: see `stop`.
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns the cost of the ticks' starts.
    #[cfg(feature = "internals")]
    pub(crate) fn start_cost(&self) -> super::StartCost {
        let mut sum = super::StartCost::default();
        for place in &self.places {
            sum.add(place.lock().tick.start_cost());
        }
        sum
    }

    pub(crate) fn stats(&self) -> ExecutorStats {
        if !self.is_here() {
            // The locks of the queues may be held by threads that this process does not have.
            return ExecutorStats::default();
        }
        let mut sum = ExecutorStats {
            tasks: self.live() as u64,
            stuck: self.settings.stuck.get(),
            panics: self.settings.panics.get(),
            ..ExecutorStats::default()
        };
        let mut fresh = 0;
        for place in &self.places {
            let counters = &place.counters;
            sum.polls += counters.polls.get();
            sum.switches += counters.switches.get();
            sum.preemptions += counters.preemptions.get();
            sum.pulls += counters.pulls.get();
            sum.pushes += counters.pushes.get();
            sum.parks += counters.parks.get();
            let scheduler = place.lock();
            sum.stolen += scheduler.clock.total().into();
            let tick = scheduler.tick.hrtick.stats();
            sum.throttles += scheduler.queue.deadlines.throttles();
            sum.extensions += scheduler.tick.extensions;
            drop(scheduler);
            sum.tick_starts += tick.asked;
            sum.tick_filtered += tick.filtered;
            sum.ticks += tick.fired;
            let base = place.on_base.counted();
            sum.device_writes += base.device_writes;
            sum.signals += base.signals;
            sum.timer_starts += base.timer_starts;
            sum.in_place += base.in_place;
            sum.filed_early += base.filed_early;
            sum.far_in_slot += base.far_in_slot;
            fresh += base.timer_ends + base.queued;
            sum.interrupts += base.interrupts;
            sum.spurious += base.spurious;
        }
        sum.timer_updates = sum.timer_starts.saturating_sub(fresh);
        sum
    }
}

impl Others for Shared {
    /// A worker that has descriptors moves the clock itself, when none has become ready for a while.
    fn are_idle(&self) -> bool {
        let turn = self.turn();
        let is_own = current::worker_of(self.id) == Some(turn);
        if self.reactor.is_needed() && !is_own {
            self.kick();
            return false;
        }
        self.idle.is_idle(turn) && !self.has_work(turn)
    }

    fn kick(&self) {
        let turn = self.turn();
        self.preempt(turn);
        self.places[turn].unpark();
    }

    fn wake_all(&self) {
        for place in &self.places {
            let waiting = place.lock().tasks.wakers();
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl Keeper for Shared {
    #[inline]
    fn id(&self) -> u64 {
        self.id
    }

    fn schedule(&self, job: Job) {
        if !self.is_here() {
            // It is the parent's.
            std::mem::forget(job);
            return;
        }
        let job = match &self.drawn {
            None => job,
            Some(drawn) => match drawn.push(job) {
                Ok(()) => {
                    let turn = drawn.turn();
                    if current::worker_of(self.id) != Some(turn) {
                        self.places[turn].unpark();
                    }
                    return;
                }
                // The queue of the place is closed too, and knows where the task ends.
                Err(job) => job,
            },
        };
        self.push_remote(job.metadata().worker(), job);
    }

    fn push(&self, job: Job) {
        self.pool.push(job);
    }

    fn end(&self, header: &Header) {
        if !self.is_here() {
            // The lists are the parent's.
            return;
        }
        let listed = header.listing.place();
        let runs_on = current::worker_of(self.id).filter(|_| current::is_running(header.address()));
        let mut waker = runs_on.and_then(|worker| {
            let slot = listed
                .filter(|(home, _)| *home == worker)
                .map(|(_, slot)| slot);
            self.places[worker].with(|scheduler| {
                if !current::has_ended() {
                    scheduler.finish(now_lower());
                }
                slot.and_then(|slot| scheduler.tasks.delist(slot))
            })
        });
        if let Some((home, slot)) = listed
            && runs_on != Some(home)
        {
            waker = self.places[home].lock().tasks.delist(slot);
        }
        if let Some(server) = header.server() {
            // Always queued there, and by now in no queue.
            self.places[header.worker()].with(|it| it.queue.deadlines.dismiss(server));
        }
        if header.is_local {
            // Relaxed: see `Remote::add_local`. A local task ends on the thread of its worker.
            self.places[header.worker()]
                .locals
                .fetch_sub(1, Ordering::Relaxed);
        }
        // Dropped here, with no lock held.
        drop(waker);
        self.retire();
    }

    fn panicked(&self) {
        self.settings.panics.add_one_remote();
        if self.settings.panic == PanicPolicy::ShutDown {
            self.stop();
        }
    }

    fn abort(&self, header: &Header) {
        let place = header.listing.abort();
        if !self.is_here() {
            return;
        }
        // A task that is not listed is about to be polled, or will find out when it is.
        if let Some((home, slot)) = place {
            let waker = self.places[home].lock().tasks.waker(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        let worker = header.worker();
        if header.server().is_some()
            && self.places[worker].with(|scheduler| scheduler.end(header, now_lower()))
        {
            self.preempt(worker);
            self.places[worker].unpark();
        }
    }
}

/// An executor, as those know it that have a part in it.
pub(crate) type Handle = Arc<Shared>;

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use async_task::Builder;
    use tickless_sched::{Request, Weight};

    use super::super::header::{Entity, Origin, Terms};
    use super::*;
    use crate::topology::tests::fixture;

    fn queue_on(shared: &Handle, worker: usize) {
        let origin = Origin {
            name: None,
            location: Location::caller(),
        };
        let entity = Entity::new(Weight::UNIT, Request::DEFAULT);
        let header = Header::new(
            Handle::clone(shared),
            worker,
            false,
            entity,
            21,
            Terms::Share,
            origin,
        );
        let (job, task) = Builder::new()
            .metadata(header)
            .spawn(|_| std::future::pending::<()>(), |_| {});
        task.detach();
        shared.places[worker].with(|scheduler| scheduler.wake(job, now_lower()));
    }

    #[test]
    fn an_idle_worker_pulls_from_its_sibling_first() {
        // Workers 0 to 3 on CPUs 0, 4, 2 and 8: the last one shares a core with the first, 4 is in another package.
        let shared = Shared::for_tests(4);
        let cpus = [0, 4, 2, 8].map(Some);
        let near = StealOrder::of(&fixture("two-sockets"), &cpus).expect("all are pinned");
        shared.near.set(near).expect("for the first time");
        for worker in [1, 2, 3] {
            queue_on(&shared, worker);
        }
        for from in [3, 2, 1] {
            assert_eq!(shared.places[from].waiting(), 1);
            assert!(shared.pull(0));
            assert_eq!(shared.places[from].waiting(), 0, "worker {from} is next");
        }
        assert!(!shared.pull(0), "there is no more");
        for worker in [1, 2, 3] {
            shared.idle.enter(worker);
        }
        let claimed = std::iter::from_fn(|| shared.claim_near(0));
        assert_eq!(claimed.collect::<Vec<_>>(), [3, 2, 1]);
    }
}
