//! Moves of tasks between workers: to a worker without tasks, and between two busy workers.
//!
//! Every 10 ms a busy worker compares the service of its tasks with the service of another worker's tasks. The worker
//! takes each of the other workers in turn. Both workers give tasks away as long as both gain by it.

use tickless_core::time::{Instant, Span};

use super::header::Job;
use super::shared::Shared;
use crate::host::thread::now_lower;

/// The time between two comparisons of a busy worker's shares with another worker's shares.
const EVERY: Span = Span::from_millis(10);

/// The state of one worker's comparisons.
pub(crate) struct Comparisons {
    /// The time of the next comparison; never if there is no other worker.
    next: Instant,
    made: usize,
}

impl Comparisons {
    pub(crate) const fn among(workers: usize) -> Self {
        let next = match workers {
            0..=1 => Instant::FOREVER,
            _ => Instant::ZERO,
        };
        Self { next, made: 0 }
    }

    #[inline]
    pub(crate) fn are_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Makes the comparison that is due at `now` for the worker `index`.
    #[cold]
    pub(crate) fn make(&mut self, shared: &Shared, index: usize, now: Instant) {
        self.next = now.saturating_add(EVERY);
        self.made = self.made.wrapping_add(1);
        shared.balance(index, self.made);
    }
}

impl Shared {
    /// Moves a task from the nearest worker with a waiting task to the worker `index`, which has none. Returns true if
    /// a task was moved.
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

    /// Queues a task, which waited at another worker, at `index`, the worker of this thread.
    fn take_over(&self, index: usize, job: Job) {
        job.metadata().set_worker(index);
        let place = &self.places[index];
        let _pick_follows = place.push(job, |scheduler, job| scheduler.wake(job, now_lower()));
        place.counters.pulls.add_one();
    }

    /// Balances the shares of this worker's tasks with those of another busy worker's tasks; `turn` selects the other
    /// worker.
    fn balance(&self, index: usize, turn: usize) {
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
                there.preempt();
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
}
