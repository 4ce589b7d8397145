//! The choice of the task that moves from one queue to another, so that tasks get the shares that a single queue would
//! give them.
//!
//! Each CPU has a queue, and each queue is fair to its own tasks. With five tasks in one queue and four in the other,
//! a task gets 20 or 25 % of a CPU, although each of the nine is entitled to 22 %; no number of moves makes both queues
//! the same. The best solution is that each task spends a part of the time in either queue.
//!
//! The virtual time of a queue is the average service of its tasks, each by its weight. So two queues serve their tasks
//! alike if their virtual times advance alike; no other condition is needed. A task that leaves the queue that is
//! behind adds the distance of the queues to its lag, and the other queue serves the task for it.
//!
//! The queue whose virtual time is behind gives a task away. It does so early, because the queues are compared by the
//! distance that they will have a [horizon](HORIZON) later: this evens the weights out before a task has less than its
//! share. The distance that is left by then reverses the direction of later moves.
//!
//! A task alone on its CPU may weigh more than all other tasks together. The task cannot get more than its CPU, so its
//! queue falls ever further behind without owing the task anything. The comparison therefore
//! [forgets](Standing::caught_up) all of the distance that exceeds the service of a horizon.

use crate::amount::{Request, Weight};

/// The time that a decision looks ahead: 100 ms, in nanoseconds.
pub const HORIZON: u64 = 100_000_000;

/// The service that the tasks of a queue received, and the rate at which they receive more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The sum of the weights of the tasks that compete in the queue.
    weight: u64,
    /// The virtual time, in nanoseconds of service for a task of unit weight. It wraps.
    at: i64,
}

impl Standing {
    pub(super) const fn new(weight: u64, at: i64) -> Self {
        Self { weight, at }
    }

    /// Returns true if no task competes in the queue.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.weight == 0
    }

    /// Returns how much more service the tasks of this queue received than those of `other`, in virtual nanoseconds;
    /// negative if they received less.
    #[must_use]
    pub const fn ahead_of(self, other: Self) -> i64 {
        self.at.wrapping_sub(other.at)
    }

    /// Returns true if a task that waits in the queue of `from` should move to this queue: the move brings the queues
    /// closer together, and their distance is worth a request of that task.
    pub(super) fn takes(self, from: Self, weight: Weight, request: Request) -> bool {
        let ahead = self.ahead_of(from);
        let apart = |here: u64, there: u64| {
            ahead
                .saturating_add(progress(here))
                .saturating_sub(progress(there))
        };
        let moved = weight.get();
        let before = apart(self.weight, from.weight);
        let behind = apart(
            self.weight.saturating_add(moved),
            from.weight.saturating_sub(moved),
        );
        let worth = i128::from(before) * i128::from(moved);
        let least = i128::from(request.nanos()) * i128::from(Weight::UNIT.get());
        // Past balance the task would soon come back, so a move overshoots by half the distance at most.
        before > 0 && behind >= -(before / 2) && worth >= least
    }

    /// Adds a task of this weight, whose virtual time is `behind` that of this queue. Returns the task's new lag.
    pub(super) fn join(&mut self, weight: Weight, behind: i64) -> i64 {
        let whole = self.weight.saturating_add(weight.get());
        // It pulls the queue towards itself, by its part in the whole.
        let part = i128::from(behind) * i128::from(weight.get()) / i128::from(whole);
        let part = i64::try_from(part).unwrap_or(behind);
        *self = Self::new(whole, self.at.wrapping_sub(part));
        behind - part
    }

    /// Returns this standing with the virtual time of `other`. It is for a queue that was empty when its tasks came:
    /// there was no task to compare them with, so they count as served like the tasks of `other`.
    #[must_use]
    pub const fn level_with(self, other: Self) -> Self {
        Self::new(self.weight, other.at)
    }

    /// Returns this standing without the part of its lag behind `other` that is too large to make up for.
    #[must_use]
    pub fn caught_up(self, other: Self) -> Self {
        let most = progress(other.weight);
        if other.ahead_of(self) <= most {
            return self;
        }
        Self::new(self.weight, other.at.wrapping_sub(most))
    }
}

/// Returns how far the virtual time of a queue of that weight advances within the horizon.
fn progress(weight: u64) -> i64 {
    let weight = weight.max(Weight::MIN.get());
    i64::try_from(HORIZON * Weight::UNIT.get() / weight).unwrap_or(i64::MAX)
}
