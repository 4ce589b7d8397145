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

/// Counts of a worker, each written by the worker itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) polls: Count,
    pub(crate) switches: Count,
    pub(crate) preemptions: Count,
    pub(crate) pulls: Count,
    pub(crate) pushes: Count,
    pub(crate) parks: Count,
}

/// Counters of an executor since it was built; see [`Executor::stats`](super::Executor::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorStats {
    /// Tasks that have not ended.
    pub tasks: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Polls of a task other than the one that the worker polled before.
    pub switches: u64,
    /// Tasks that gave their turn away at a checkpoint, because the tick or a wake-up asked for it.
    pub preemptions: u64,
    /// Slices that were extended, because the task had [requested it](super::coop::extend_slice).
    pub extensions: u64,
    /// Tasks that a worker pulled from another one, because it was idle, or because its tasks had received more service
    /// than theirs.
    pub pulls: u64,
    /// Tasks that a worker pushed to another busy one, because its own tasks had received less service than those
    /// there.
    pub pushes: u64,
    /// Parks of workers.
    pub parks: u64,
    /// Tasks with a [`Deadline`](super::task::Deadline) that had used their runtime and had to wait for their next
    /// period.
    pub throttles: u64,
    /// Starts of a tick: at each pick with another task waiting.
    pub tick_starts: u64,
    /// Starts of a tick that were skipped, because the tick was queued within 5 µs of the new time; where checkpoints
    /// compare the counter, also if it was queued before the new time (it fires early then).
    pub tick_filtered: u64,
    /// Ticks that fired.
    pub ticks: u64,
    /// Calls of `timer_settime`, by which workers set their POSIX timers; only with
    /// [`Preemption::Signal`](super::Preemption::Signal).
    pub device_writes: u64,
    /// Signals of these timers.
    pub signals: u64,
    /// Starts of timers on the workers, ticks among them.
    pub timer_starts: u64,
    /// Starts of timers that were already queued.
    ///
    /// Nothing counts them where timers start. A timer leaves its queue by firing or by a cancel, so the other starts
    /// are as many as timers left the workers' queues or are queued there. That is exact for the timers of workers that
    /// have stopped or have nothing to do, ticks among them, if no timer came from another thread's queue or went to
    /// one, and none was taken back because it was over when it was started. While workers run, it is off by what
    /// happens between two looks at a worker.
    pub timer_updates: u64,
    /// Updates that kept the timer's place in the sorted queue, and changed its key to the new deadline.
    pub in_place: u64,
    /// Updates that left the timer in the sorted queue with its old key, which is earlier than its new deadline.
    pub filed_early: u64,
    /// Updates that left the timer in its bucket of the far wheel.
    pub far_in_slot: u64,
    /// Checks of a worker's timers because the first of them was due.
    pub interrupts: u64,
    /// Interrupts that found nothing due.
    pub spurious: u64,
    /// The time for which workers could have run and the system ran other threads on their CPUs, as far as the kernel
    /// accounts for it; a hypervisor counts as the system if it informs the kernel. Tasks are not charged for it. Zero
    /// if the kernel keeps no account of waiting.
    pub stolen: Duration,
    /// Tasks that were reported because they kept their worker for longer than
    /// [`Builder::stuck_after`](super::Builder::stuck_after).
    pub stuck: u64,
    /// Tasks that panicked.
    pub panics: u64,
}
