//! The tasks of a worker that have deadlines, together with the time of the next replenishment. The worker starts a
//! timer for that time ([`SliceTick::start_bandwidth`]).
//!
//! The queue uses the worker's clock. That clock stops while the system runs other threads, so it lags behind the
//! monotonic clock, which the timer uses. [`expiry`] adds this lag to the time of the replenishment (spec X-5,
//! [`RunClock::expiry`]). If more time is stolen meanwhile, the timer fires early, no task is
//! replenished, and the next pick starts the timer again.
//!
//! [`SliceTick::start_bandwidth`]: super::slice_tick::SliceTick::start_bandwidth
//! [`RunClock::expiry`]: tickless_sched::load::RunClock::expiry

use std::pin::Pin;

use tickless_core::time::Instant;
use tickless_sched::RunTime;
use tickless_sched::deadline::{
    Bandwidth, DeadlineQueue, Enqueued, Rejected, Reservation, RuntimeLeft,
};

use super::header::{self, Header, Job, Server, Waiting};

#[cfg(test)]
mod tests;

/// The set of a worker's tasks with deadlines: the running task, the waiting tasks and the throttled tasks.
#[derive(Debug)]
pub(crate) struct Deadlines {
    queue: DeadlineQueue<Waiting>,
    limit: Bandwidth,
    /// The number of tasks that have not ended, whether or not they wait. While it is zero, the whole mechanism costs a
    /// comparison.
    tasks: usize,
    /// The aborted tasks. Each is polled once more, even without runtime.
    ending: Vec<Job>,
    /// True if a task of the set runs.
    is_running: bool,
    /// True if a replenishment is pending for which the timer was not started. The worker starts the timer at its next
    /// pick.
    owes_timer: bool,
    throttled: u64,
}

impl Deadlines {
    /// Makes an empty set that admits reservations up to `limit`.
    pub(crate) fn new(limit: Bandwidth) -> Self {
        Self {
            queue: DeadlineQueue::new(limit),
            limit,
            tasks: 0,
            ending: Vec::new(),
            is_running: false,
            owes_timer: false,
            throttled: 0,
        }
    }

    /// Returns the sum of the admitted reservations.
    pub(crate) fn admitted(&self) -> Bandwidth {
        self.queue.admitted()
    }

    /// Admits a reservation.
    pub(crate) fn admit(&mut self, reservation: Reservation) -> Result<Server, Rejected> {
        let server = self.queue.admit(reservation)?;
        self.tasks += 1;
        Ok(server)
    }

    /// Dismisses a task that has ended.
    pub(crate) fn dismiss(&mut self, server: Pin<&Server>) {
        // Refused behind the end of the worker, when the queue that admitted it is gone.
        if self.queue.dismiss(server).is_ok() {
            self.tasks -= 1;
            self.owes_timer &= self.tasks > 0;
        }
    }

    /// Returns the number of tasks that wait for their turn and are not throttled.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        if self.tasks == 0 {
            return 0;
        }
        self.queue.waiting() + self.ending.len()
    }

    /// Returns whether the set has no tasks.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks == 0
    }

    /// Returns whether a task of the set runs. Tasks of the fair class do not preempt it.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Returns whether the worker has to pick even if no task waits, to start the timer.
    pub(crate) fn owes_timer(&self) -> bool {
        self.owes_timer
    }

    /// Returns how often a task was throttled.
    pub(crate) fn throttles(&self) -> u64 {
        self.throttled
    }

    /// Queues a task that is new, was woken, or yielded. Returns `None` if the queue refused the task.
    pub(crate) fn enqueue(&mut self, job: Job, now: RunTime) -> Option<Enqueued> {
        if job.metadata().listing.is_aborted() {
            self.ending.push(job);
            let is_throttled = false;
            return Some(Enqueued {
                preempts: true,
                is_throttled,
            });
        }
        let queued = header::enqueue_reserved(&mut self.queue, job, now)?;
        if queued.is_throttled {
            self.throttled += 1;
            self.owes_timer = true;
        }
        Some(queued)
    }

    /// Ends an aborted task: the task is polled at once, and need not wait for runtime. Returns whether the task waited
    /// in this set.
    pub(crate) fn end(&mut self, header: &Header, now: RunTime) -> bool {
        let server = header.server();
        let waited = server.and_then(|server| self.queue.dequeue(server, now));
        let Some(Waiting(job)) = waited else {
            // It is in the hand of another thread, which finds that it was aborted when it queues it.
            return false;
        };
        self.ending.push(job);
        true
    }

    /// Picks the task that is polled next. Returns the task and its runtime; an aborted task has no runtime. The tasks
    /// whose next period has begun are replenished.
    #[inline]
    pub(crate) fn pick(&mut self, now: RunTime) -> Option<(Job, Option<RuntimeLeft>)> {
        if self.tasks == 0 {
            return None;
        }
        self.pick_among(now)
    }

    #[cold]
    fn pick_among(&mut self, now: RunTime) -> Option<(Job, Option<RuntimeLeft>)> {
        self.queue.replenish(now);
        if let Some(job) = self.ending.pop() {
            self.queue.retire(now);
            self.is_running = true;
            return Some((job, None));
        }
        let picked = self.queue.pick(now);
        self.is_running = picked.is_some();
        let left = self.queue.account(now).left();
        picked.map(|Waiting(job)| (job, Some(left)))
    }

    /// Notes that the running task, which owns `server`, waits for an event.
    pub(crate) fn sleep(&mut self, server: Pin<&Server>, now: RunTime) {
        // Refused for one that gave its turn away, and was queued again.
        let _refused = self.queue.sleep(server, now);
        self.is_running = false;
    }

    /// Notes that the running task has ended, if a task of the set runs.
    #[inline]
    pub(crate) fn finish(&mut self, now: RunTime) {
        if self.is_running {
            self.queue.retire(now);
            self.is_running = false;
        }
    }

    /// Returns the time for which the worker starts its timer for the next replenishment, which settles the pending
    /// start. `now` is the monotonic time at which the clock of the queue shows `run_time`. Returns `None` if no task
    /// waits for runtime: a timer that is still queued then fires without effect.
    #[inline]
    pub(crate) fn settle_timer(&mut self, now: Instant, run_time: RunTime) -> Option<Instant> {
        if self.tasks == 0 {
            return None;
        }
        self.owes_timer = false;
        let next = self.queue.next_replenishment()?;
        Some(expiry(next, now, run_time))
    }

    /// Closes the queue, and returns the tasks that waited in it.
    pub(crate) fn close(&mut self) -> Vec<Job> {
        let mut queue = std::mem::replace(&mut self.queue, DeadlineQueue::new(self.limit));
        self.tasks = 0;
        self.is_running = false;
        self.owes_timer = false;
        let end = RunTime::from_nanos(u64::MAX);
        queue.replenish(end);
        let mut waited = std::mem::take(&mut self.ending);
        waited.extend(std::iter::from_fn(|| {
            queue.pick(end).map(|Waiting(job)| job)
        }));
        waited
    }
}

/// Returns the monotonic time at which the clock of the queue shows `at`, if no more time is stolen. The function adds
/// the distance by which the monotonic clock is ahead.
fn expiry(at: RunTime, now: Instant, run_time: RunTime) -> Instant {
    now.saturating_add(at.saturating_since(run_time))
}
