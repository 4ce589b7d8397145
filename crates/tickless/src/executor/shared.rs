//! The state that the workers of an executor share, and the choice of the worker that is notified of a task.
//!
//! # Ground rules
//!
//! - Each worker's [`Scheduler`] has a lock. A thread holds one of these locks at a time, and no code of a user runs
//!   under it: no waker, no future, and no destructor of either.
//! - A task is in one queue, or belongs to one thread: the thread that woke it, polls it, or moves it from one worker
//!   to another.
//! - A worker that has nothing to do announces this in [`Idle`], checks the queues again, and parks. A thread that
//!   queues a task first counts the task and then looks for idle workers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use tickless_link::sync::CachePadded;

use super::blocking::Pool;
use super::current;
use super::drawn::DrawnQueue;
use super::header::Job;
use super::idle::Idle;
use super::io::IoReactor;
use super::lifetime::Lifetime;
use super::remote::Remote;
use super::run_queue::Queued;
use super::scheduler::Scheduler;
use super::settings::Settings;
use super::stats::ExecutorStats;
use super::steal_order::StealOrder;
use crate::host::isolation::locks::OwnedLocks;
use crate::host::process;
use crate::host::thread::{Thread, now_lower, with_thread};
use crate::time::virtual_time::draw::Draw;
use crate::time::virtual_time::runtime::{Others, Runtime};

/// The state that the handles and the workers of an executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The number that distinguishes the executor from others.
    pub(crate) id: u64,
    pub(crate) places: Box<[CachePadded<Remote>]>,
    pub(crate) idle: Idle,
    pub(crate) reactor: Arc<IoReactor>,
    /// The order of distances between workers, if the workers are pinned; set before the executor is returned to its
    /// user.
    pub(crate) near: OnceLock<StealOrder>,
    pub(crate) lifetime: Lifetime,
    /// The worker that gets the next task of a thread that is not a worker.
    next: AtomicUsize,
    /// The number of forks before the process to which the workers belong.
    forks: u32,
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    /// The ready tasks, if a seed sets their random order; else the ready tasks are in the workers' queues.
    pub(crate) drawn: Option<DrawnQueue>,
    /// The runtime to which the executor's clock belongs.
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
                .map(|_| CachePadded(Remote::new(switches)))
                .collect(),
            idle: Idle::new(workers),
            reactor: Arc::new(IoReactor::new()),
            near: OnceLock::new(),
            lifetime: Lifetime::new(),
            next: AtomicUsize::new(0),
            forks: process::forks(),
            pool: Pool::new(settings.blocking_threads, Arc::clone(&runtime)),
            settings,
            drawn: None,
            runtime,
        }
    }

    /// Makes `seed` set the random order of ready tasks, and of timers with equal deadlines.
    #[cfg_attr(
        not(feature = "macros"),
        expect(dead_code, reason = "the attributes alone draw")
    )]
    pub(crate) fn draw_by(&mut self, seed: u64) {
        self.drawn = Some(DrawnQueue::new(Draw::new(seed, 0)));
        self.runtime.clock().set_draw(Draw::new(seed, 1));
    }

    /// Creates an executor for which no thread works.
    #[cfg(test)]
    pub(crate) fn for_tests(workers: usize) -> Handle {
        Arc::new(Self::new(workers, Settings::default()))
    }

    /// Returns whether this process has the workers. The child of a fork has none, and may find any of the locks held.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.forks == process::forks()
    }

    /// Returns the worker on which a new task starts: the worker that spawns the task, or else each worker in turn.
    /// `None` if the only worker's thread executes the exit handlers of the process.
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

    /// Returns true if this thread is a worker that executes the exit handlers of the process. Other workers read this
    /// state and steal the tasks that wait here.
    pub(crate) fn exits_here(&self) -> bool {
        let Some(worker) = current::worker_of(self.id) else {
            return false;
        };
        if !with_thread(Thread::is_at_its_end) {
            return false;
        }
        self.places[worker].set_exits();
        if self.is_here() {
            self.notify_idle(worker);
        }
        true
    }

    /// Queues a task on a worker other than this thread.
    #[inline(never)]
    pub(crate) fn push_remote(&self, index: usize, job: Job) {
        let now = now_lower();
        let queued = self.places[index].push(job, |scheduler, job| scheduler.wake(job, now));
        if let Some(queued) = queued {
            self.queued(index, queued, false);
        }
    }

    /// Enqueues the task that the running task of this worker woke. Returns true if the running task should yield.
    pub(crate) fn check_preempt(&self) -> bool {
        let worker = current::worker_of(self.id).filter(|_| self.is_here());
        worker.is_some_and(|worker| self.places[worker].with(Scheduler::check_preempt))
    }

    /// Notifies the worker on which a task was queued, if necessary, and an idle worker that could pull a task.
    #[inline]
    pub(crate) fn queued(&self, index: usize, queued: Queued, is_here: bool) {
        if queued.preempts {
            self.places[index].preempt();
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

    /// Notifies an idle worker, if there is one. That worker then pulls a task.
    #[inline(never)]
    pub(crate) fn notify_idle(&self, index: usize) {
        if self.places.len() > 1
            && self.idle.any()
            && let Some(near) = self.claim_near(index)
        {
            self.places[near].unpark();
        }
    }

    /// Notifies a worker about a new descriptor, if no worker waits for descriptors.
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
        self.places.iter().for_each(|place| place.preempt());
    }

    /// Claims the idle worker that is nearest to worker `index`, if any worker is idle.
    fn claim_near(&self, index: usize) -> Option<usize> {
        let Some(near) = self.near.get() else {
            return self.idle.claim_near(index);
        };
        let mut others = near.others(index).iter().copied();
        others.find(|&other| self.idle.is_idle(other) && self.idle.claim(other))
    }

    /// Returns the other workers in the order in which a worker tries to steal from them.
    pub(crate) fn others(&self, index: usize) -> impl Iterator<Item = usize> {
        let count = self.places.len();
        let near = self.near.get().map(|near| near.others(index));
        (1..count).map(move |step| near.map_or((index + step) % count, |near| near[step - 1]))
    }

    /// Returns whether a task waits in any queue. Called by a worker after the worker announced that it is idle.
    pub(crate) fn has_work(&self, index: usize) -> bool {
        self.places[index].with(|scheduler| scheduler.queue.has_work())
            || self.places.iter().any(|place| place.waiting() > 0)
            || self.drawn.as_ref().is_some_and(|drawn| !drawn.is_empty())
    }

    /// Counts a new task. Returns true if the executor accepts the task. A task that is not accepted is ended at once,
    /// and its end decrements the count.
    pub(crate) fn admit(&self) -> bool {
        self.lifetime.admit() && self.is_here()
    }

    /// Makes the workers end when they check the state next.
    pub(crate) fn stop(&self) {
        self.lifetime.stop();
        for place in &self.places {
            place.preempt();
            place.unpark();
        }
        self.reactor.close();
    }

    pub(crate) fn stats(&self) -> ExecutorStats {
        if !self.is_here() {
            // The locks of the queues may be held by threads that this process does not have.
            return ExecutorStats::default();
        }
        let mut sum = ExecutorStats {
            tasks: self.lifetime.tasks() as u64,
            stuck: self.settings.stuck.get(),
            panics: self.settings.panics.get(),
            ..ExecutorStats::default()
        };
        for place in &self.places {
            place.add_to(&mut sum);
        }
        sum
    }
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

impl Others for Shared {
    /// Returns whether the only worker, which moves the clock, has nothing to do. A worker that has descriptors moves
    /// the clock itself, when no descriptor has become ready for a while.
    fn are_idle(&self) -> bool {
        let is_own = current::worker_of(self.id).is_some();
        if self.reactor.is_needed() && !is_own {
            self.kick();
            return false;
        }
        self.idle.is_idle(0) && !self.has_work(0)
    }

    fn kick(&self) {
        self.places[0].preempt();
        self.places[0].unpark();
    }

    fn wake_all(&self) {
        for place in &self.places {
            let waiting = place.lock().tasks.wakers();
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// An executor, as a handle or a worker that shares it.
pub(crate) type Handle = Arc<Shared>;

#[cfg(test)]
mod tests {
    use tickless_sched::{Request, Weight};

    use super::super::header::Entity;
    use super::super::idle_task;
    use super::*;
    use crate::topology::tests::fixture;

    fn queue_on(shared: &Handle, worker: usize) {
        let entity = Entity::new(Weight::UNIT, Request::DEFAULT);
        let job = idle_task::sharing(Handle::clone(shared), worker, None, entity);
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
