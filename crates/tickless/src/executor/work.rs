//! The loop of a worker: turn, schedule, poll.
//!
//! 1. **Turn**: the worker's own due timers fire. Wakers queue tasks in this step. The rearm of the device is deferred.
//! 2. **Schedule**: the worker picks the next task, starts the tick for it, and then does the deferred rearm, so that
//!    one interrupt costs one write of the device (FLUSH-5, FLUSH-10).
//! 3. **Poll**: the task runs until it waits, finishes, or yields at a checkpoint.
//!
//! A worker without a task pulls a task from another worker. If there is none, the worker parks until its first
//! deadline.

use std::task::Waker;

use tickless_core::time::{Instant, Span};
use tickless_sched::hrtick::SliceTimer;

use super::balance::Comparisons;
use super::current::{self, Current};
use super::drawn::DrawnQueue;
use super::drawn_context::DrawnContext;
use super::header::Job;
use super::io::{EVENTS, IoReactor, PERIOD};
use super::job::{discard, run};
use super::own::{self, OwnWorker};
use super::remote::Remote;
use super::scheduler::Scheduler;
use super::shared::Handle;
use super::tick::TickTimer;
use super::watch::BlockedTimer;
use super::worker_context::WorkerContext;
use crate::host::thread::{now_lower, with_thread};
use crate::time::virtual_time::runtime::{self, Others as _, Passed};
use crate::worker::{EpollEvents, Worker};

/// The state that a worker keeps between two rounds.
struct Loop<'a> {
    watch: BlockedTimer,
    worker: &'a Worker,
    shared: &'a Handle,
    /// The worker's own `Remote`.
    place: &'a Remote,
    /// The `Current` of this thread.
    current: &'a Current,
    index: usize,
    /// The task that was polled last, as the address of its header.
    last: usize,
    /// The timer of the next check of the descriptors, while the worker has tasks.
    looks: TickTimer,
    comparisons: Comparisons,
    /// The reactor of `shared`, which the worker reads in each round.
    reactor: &'a IoReactor,
    events: EpollEvents,
    /// The time since when the worker of a virtual clock has nothing to do but to wait for descriptors.
    quiet_since: Option<Instant>,
    /// The time since when no event known to the worker could wake one of the tasks, whose order is random.
    stuck_since: Option<Instant>,
}

/// The time without a ready descriptor after which a virtual clock advances. Data of another process or machine takes
/// longer to arrive only if that process or machine waits too.
const QUIET: Span = Span::from_millis(5);

/// The time that foreign threads have to wake a task when all tasks of a random order wait and the worker knows of no
/// other event that could wake one. After this time the state counts as a deadlock.
const GRACE: Span = Span::from_secs(5);

/// A guard at whose drop the thread stops being a worker.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        current::set_worker(0, 0, None);
    }
}

/// Runs tasks until the executor stops.
pub(crate) fn work(worker: &Worker, shared: &Handle, index: usize) {
    let owner = shared.places[index].claim();
    current::set_worker(shared.id, index, owner);
    let leaves = Leaves;
    let tick = TickTimer::new(worker.base());
    shared.places[index].lock().open(tick, now_lower());
    current::with(|current| {
        with_thread(|thread| {
            let mut work = Loop {
                watch: BlockedTimer::new(shared, index),
                worker,
                shared,
                place: &shared.places[index],
                current,
                index,
                last: 0,
                looks: TickTimer::other(worker.base()),
                comparisons: Comparisons::among(shared.places.len()),
                reactor: &shared.reactor,
                events: EpollEvents::with_capacity(EVENTS),
                quiet_since: None,
                stuck_since: None,
            };
            let context = WorkerContext::new(shared, index, worker.base(), current, thread);
            let drawn = DrawnContext::new(shared, index);
            let own: &dyn OwnWorker = match &shared.drawn {
                Some(_) => &drawn,
                None => &context,
            };
            own::work_as(shared.id, own, || {
                work.drawn_rounds();
                while !shared.lifetime.is_stopped() && shared.is_here() {
                    #[cfg(feature = "internals")]
                    if let Some(around) = shared.settings.rounds {
                        around(&mut || work.round());
                        continue;
                    }
                    work.round();
                }
                if shared.is_here() {
                    work.close();
                } else {
                    // The parent's, which a poll picked that forked.
                    std::mem::forget(current.take_next());
                }
            });
        })
    });
    drop(leaves);
    if let Some(owner) = owner.filter(|_| shared.is_here()) {
        shared.places[index].disown(owner);
    }
}

impl Loop<'_> {
    fn round(&mut self) {
        if let Some(job) = self.current.take_next() {
            // Nothing was due when it was picked.
            self.look();
            self.poll(job);
            return;
        }
        self.schedule();
    }

    /// Runs tasks until the executor stops, if a seed sets their random order.
    fn drawn_rounds(&mut self) {
        let shared = self.shared;
        let Some(queue) = &shared.drawn else {
            return;
        };
        while !shared.lifetime.is_stopped() && shared.is_here() {
            self.drawn_round(queue);
        }
    }

    /// Executes a round if the order of the tasks is random.
    fn drawn_round(&mut self, queue: &DrawnQueue) {
        if self.worker.is_due() {
            let _more = self.worker.turn();
        }
        if self.worker.clear_reschedule() {
            runtime::sync();
        }
        self.look();
        match queue.draw() {
            Some(job) => {
                self.stuck_since = None;
                self.poll(job);
                // Nothing was accounted, so there is no reading to go on with.
                let _none = self.current.take_ended();
            }
            None => self.idle(),
        }
    }

    /// Ends the executor if all tasks wait for ever; their order is random.
    #[cold]
    fn look_for_deadlock(&mut self, queue: &DrawnQueue) {
        if self.reactor.is_needed() {
            return;
        }
        self.looks.cancel();
        if !self.shared.runtime.is_stuck() || self.worker.next_deadline().is_some() {
            self.stuck_since = None;
            return;
        }
        let now = now_lower();
        let since = *self.stuck_since.get_or_insert(now);
        if now.saturating_since(since) < GRACE {
            self.looks.start(since.saturating_add(GRACE));
        } else {
            queue.set_deadlocked();
            self.shared.stop();
        }
    }

    /// Executes a whole round.
    #[inline(never)]
    fn schedule(&mut self) {
        // The reading that the task before was accounted by, if it waits: one for each switch.
        let now = self.current.take_ended().unwrap_or_else(now_lower);
        let is_due = self.worker.is_due_at(now);
        if is_due {
            self.worker.turn_owing(now_lower());
        }
        self.look();
        let balances = self.comparisons.are_due(now);
        if balances {
            self.comparisons.make(self.shared, self.index, now);
        }
        // What the turn took is no task's: it is not charged to the one that is picked.
        let now = if is_due || balances { now_lower() } else { now };
        // After the turn, whose timers asked for what comes next, and before the looks for what others asked for.
        if self.worker.clear_reschedule() {
            self.answer(now);
        }
        self.current.set_arrived(false);
        if self.shared.lifetime.is_stopped() {
            return;
        }
        let place = self.place;
        let (job, waiting, is_unwatched) = place.with_at(now, |scheduler, now| {
            let job = scheduler.pick(now, is_due);
            let is_unwatched = job.is_some() && scheduler.running.needs_watch();
            (job, scheduler.queue.waiting(), is_unwatched)
        });
        match job {
            Some(job) => {
                if is_unwatched {
                    self.watch.begin();
                }
                if waiting > 0 {
                    self.shared.notify_idle(self.index);
                }
                self.poll(job);
            }
            None => self.idle(),
        }
    }

    /// Serves a request to schedule, which may have arrived after the worker's turn and its check: for a new
    /// descriptor, or by a kick.
    #[cold]
    fn answer(&mut self, now: Instant) {
        runtime::sync();
        self.look();
        if self.worker.is_due_at(now) {
            self.worker.request_reschedule();
        }
    }

    #[inline(always)]
    fn poll(&mut self, job: Job) {
        let place = self.place;
        let header = job.metadata();
        let task = header.address();
        place.counters.polls.add_one();
        if self.last != task {
            self.last = task;
            place.counters.switches.add_one();
        }
        // A task that was spawned after the pause of the clock, by another thread, begins on the clock that stands.
        if self.shared.runtime.is_to_be_shown() {
            runtime::sync();
        }
        self.current.begin(task);
        run(job);
        if self.shared.runtime.is_to_be_shown() {
            self.follow_pause();
        }
        if self.current.was_preempted() {
            place.counters.preemptions.add_one();
        }
        self.current.end();
    }

    /// Follows a pause that came during a poll: it woke the tasks that waited, and the task of that poll did not wait
    /// yet. Its sleeps may be armed on the process's clock. They follow when they are polled, so all wake once more.
    #[cold]
    fn follow_pause(&self) {
        runtime::sync();
        self.shared.wake_all();
    }

    fn idle(&mut self) {
        if self.shared.pull(self.index) {
            return;
        }
        self.shared.idle.enter(self.index);
        let mut is_ready = false;
        let mut passed = None;
        if !self.shared.has_work(self.index) && !self.shared.lifetime.is_stopped() {
            if self.shared.runtime.is_virtual() {
                passed = self.pass_time();
            }
            if passed.is_none() {
                if let Some(queue) = &self.shared.drawn {
                    self.look_for_deadlock(queue);
                }
                self.place.counters.parks.add_one();
                is_ready = self.park();
            }
        }
        self.shared.idle.leave(self.index);
        // After its leave: else no thread would seem to be awake.
        drop(passed);
        if self.shared.runtime.is_virtual() {
            // Another thread may have paused the clock meanwhile.
            runtime::sync();
        }
        if is_ready {
            self.reactor.dispatch(&self.events);
        }
    }

    /// Fires the next timer of a virtual clock, if all tasks wait and no descriptor has become ready for a while.
    #[cold]
    fn pass_time(&mut self) -> Option<Passed> {
        runtime::sync();
        if self.reactor.is_needed() {
            let now = now_lower();
            let since = *self.quiet_since.get_or_insert(now);
            if now.saturating_since(since) < QUIET {
                return None;
            }
        }
        let passed = self.shared.runtime.pass_time()?;
        // What follows from it may be on its way to a descriptor.
        self.quiet_since = None;
        Some(passed)
    }

    /// Waits for a timer or a wake-up, and for descriptors if no other worker waits for them. Returns true if there may
    /// be events of descriptors.
    fn park(&mut self) -> bool {
        let reactor = self.reactor;
        if reactor.is_needed() {
            self.looks.cancel();
            if self.quiet_since.is_some() {
                self.looks.start(now_lower().saturating_add(QUIET));
            }
            if let Some((role, epoll)) = reactor.attend() {
                let waited = self
                    .worker
                    .park_on_epoll_without_turn(epoll, &mut self.events);
                drop(role);
                if waited.is_ok() {
                    if self.events.iter().next().is_some() {
                        self.quiet_since = None;
                    }
                    return true;
                }
                // There is no room for what wakes a worker that waits for descriptors: it looks now and then.
                self.start_to_look();
            }
        }
        self.worker.park_without_turn();
        false
    }

    /// Checks the descriptors now and then, because it may be that no worker waits for them.
    #[inline]
    fn look(&mut self) {
        if self.reactor.is_needed() && !self.looks.is_active() {
            self.reactor.look(&mut self.events);
            self.start_to_look();
        }
    }

    fn start_to_look(&self) {
        self.looks.start(now_lower().saturating_add(PERIOD));
    }

    /// Ends the worker's part of the executor: tasks that are queued here are dropped, and tasks that sleep are woken
    /// to be dropped.
    fn close(&self) {
        self.current.take_next().into_iter().for_each(discard);
        let (jobs, tick) = self.place.with(Scheduler::close);
        drop(tick);
        jobs.into_iter().for_each(discard);
        // After the other queue, which refuses what this one refuses.
        let drawn = self.shared.drawn.as_ref().map(DrawnQueue::close);
        drawn.into_iter().flatten().for_each(discard);
        // Each is scheduled once more, finds the queue closed, and is dropped there. Those of workers that ended before
        // are woken again: this one may have picked such a task before it saw that the executor ends, so that the other
        // one's wake-up did nothing, and have polled it since. After the end of the last worker none waits.
        for place in &self.shared.places {
            let left = place.lock().left_behind();
            left.into_iter().for_each(Waker::wake);
        }
        // A local task that another thread is waking at this moment is in the hand of that thread, which hands it back.
        while self.place.has_locals() && self.shared.is_here() {
            let left = self.place.with(|scheduler| scheduler.queue.take_left());
            if left.is_empty() {
                let _more = self.worker.park();
            }
            left.into_iter().for_each(discard);
        }
    }
}
