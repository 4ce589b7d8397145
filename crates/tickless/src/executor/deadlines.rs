//! The tasks of a worker that have deadlines, beside its fair queue: the running one, the throttled ones, and the time
//! of the next replenishment, for which the worker starts a timer ([`SliceTick::start_bandwidth`]).
//!
//! The queue's clock is that of the worker, which stands while the system runs others. The timer's is the monotonic
//! one, so a replenishment is that much later: [`expiry`] adds what the monotonic clock is ahead (spec X-5,
//! [`RunClock::expiry`]). Where more is stolen meanwhile the timer comes early, nothing is replenished, and the next
//! pick starts it again.
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

/// The tasks with deadlines.
#[derive(Debug)]
pub(crate) struct Deadlines {
    queue: DeadlineQueue<Waiting>,
    limit: Bandwidth,
    /// Number of tasks that are not over, whether or not they wait: while there are none, all this costs a comparison.
    tasks: usize,
    /// Tasks that were aborted: each is polled once more, whatever runtime it has left.
    ending: Vec<Job>,
    /// True if one of them runs.
    is_running: bool,
    /// A replenishment is due for which the timer was not started: the worker does that when it picks.
    owes_timer: bool,
    throttled: u64,
}

impl Deadlines {
    /// Makes an empty set, with room for `limit`.
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

    /// Admits one more.
    pub(crate) fn admit(&mut self, reservation: Reservation) -> Result<Server, Rejected> {
        let server = self.queue.admit(reservation)?;
        self.tasks += 1;
        Ok(server)
    }

    /// Dismisses a task that is over.
    pub(crate) fn dismiss(&mut self, server: Pin<&Server>) {
        // Refused behind the end of the worker, when the queue that admitted it is gone.
        if self.queue.dismiss(server).is_ok() {
            self.tasks -= 1;
            self.owes_timer &= self.tasks > 0;
        }
    }

    /// Returns the number of tasks that wait for their turn and could have it.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        if self.tasks == 0 {
            return 0;
        }
        self.queue.waiting() + self.ending.len()
    }

    /// Returns whether there are no tasks.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks == 0
    }

    /// Returns whether one of them runs: tasks of the fair class do not preempt it.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Returns whether the worker has to pick although no task waits, to start the timer.
    pub(crate) fn owes_timer(&self) -> bool {
        self.owes_timer
    }

    /// Returns how often one was throttled.
    pub(crate) fn throttles(&self) -> u64 {
        self.throttled
    }

    /// Queues one that is new, was woken, or gave its turn away. `None` if it was refused.
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

    /// Ends a task that was aborted: it is polled at once, and not when it has runtime again. Returns whether it waited
    /// here.
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

    /// The one that is polled next, and its runtime; that is none for one that was aborted. The tasks whose next period
    /// has begun have runtime again.
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

    /// The one that runs, whose server this is, waits for something.
    pub(crate) fn sleep(&mut self, server: Pin<&Server>, now: RunTime) {
        // Refused for one that gave its turn away, and was queued again.
        let _refused = self.queue.sleep(server, now);
        self.is_running = false;
    }

    /// The one that runs is over, if one runs.
    #[inline]
    pub(crate) fn finish(&mut self, now: RunTime) {
        if self.is_running {
            self.queue.retire(now);
            self.is_running = false;
        }
    }

    /// Returns the time for which the worker starts its timer for the next replenishment, so that it owes it no more.
    /// `now` is the monotonic time at which the clock of the queue shows `run_time`. `None` if no task waits for
    /// runtime: a timer that is queued then fires for nothing.
    #[inline]
    pub(crate) fn settle_timer(&mut self, now: Instant, run_time: RunTime) -> Option<Instant> {
        if self.tasks == 0 {
            return None;
        }
        self.owes_timer = false;
        let next = self.queue.next_replenishment()?;
        Some(expiry(next, now, run_time))
    }

    /// Closes the queue: what waited in it.
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

/// Returns the monotonic time at which the clock of the queue shows `at`, if nothing more is stolen: by adding the
/// distance that the monotonic clock is ahead.
fn expiry(at: RunTime, now: Instant, run_time: RunTime) -> Instant {
    now.saturating_add(at.saturating_since(run_time))
}
