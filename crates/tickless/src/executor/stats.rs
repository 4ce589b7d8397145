//! The counters of an executor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A count that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one. Called by the one thread that writes the count.
    #[inline]
    pub(crate) fn add_one(&self) {
        // Relaxed, both: a count with one writer needs no read-modify-write.
        let count = self.0.load(Ordering::Relaxed);
        self.0.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Adds one, from any thread.
    pub(crate) fn add_one_remote(&self) {
        // Relaxed: a count.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a count.
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of a worker, each written by the worker itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) polls: Count,
    pub(crate) switches: Count,
    pub(crate) preemptions: Count,
    pub(crate) pulls: Count,
    pub(crate) pushes: Count,
    pub(crate) parks: Count,
}

/// The counters of an executor since it was built; see [`Executor::stats`](super::Executor::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorStats {
    /// The number of tasks that have not ended.
    pub tasks: u64,
    /// The number of polls of tasks.
    pub polls: u64,
    /// The number of polls of a task other than the task that the worker polled before.
    pub switches: u64,
    /// The number of times that a task yielded at a checkpoint, because the tick or a wake-up requested it.
    pub preemptions: u64,
    /// The number of slices that were extended, because the task had [requested it](super::coop::extend_slice).
    pub extensions: u64,
    /// The number of tasks that a worker pulled from another worker, because the pulling worker was idle, or because
    /// the tasks of the pulling worker had received more service than those of the other worker.
    pub pulls: u64,
    /// The number of tasks that a worker pushed to another busy worker, because the tasks of the pushing worker had
    /// received less service than those of the other worker.
    pub pushes: u64,
    /// The number of times that workers parked.
    pub parks: u64,
    /// The number of starts of a tick: one at each pick while another task waits.
    pub tick_starts: u64,
    /// The number of starts of a tick that were skipped, because the tick was queued before the new time, or within
    /// 5 µs of it; a tick that was queued before fires early.
    pub tick_filtered: u64,
    /// The number of ticks that fired.
    pub ticks: u64,
    /// The time for which workers could have run and the system ran other threads on their CPUs, as far as the kernel
    /// accounts for it; a hypervisor counts as the system if it informs the kernel. Tasks are not charged for this
    /// time. Zero if the kernel does not account the time that threads wait for a CPU.
    pub stolen: Duration,
    /// The number of tasks that were reported because they kept their worker for longer than
    /// [`Builder::stuck_after`](super::Builder::stuck_after).
    pub stuck: u64,
    /// The number of tasks that panicked.
    pub panics: u64,
}
