//! The builder of an executor: its settings, and the errors of starting one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::report::Stuck;
use super::settings::{PanicPolicy, Settings};
use super::shared::{Handle, Shared};
use super::spec::Slice;
use super::steal_order::StealOrder;
use super::{Executor, context, work};
use crate::host::isolation::{self, locks::OwnedLocks};
use crate::host::sys::threads;
use crate::time::virtual_time::runtime::Others;
use crate::topology::{CpuSet, Topology};
use crate::worker::{BuildError, Builder as WorkersBuilder, Workers};

/// The settings of an executor; [`Executor::builder`] makes them.
///
/// | | default |
/// |---|---|
/// | [`workers`](Self::workers) | one for each CPU that the process may use |
/// | [`pin`](Self::pin) | workers run where the system puts them |
/// | [`helped`](Self::helped) | timers of workers that take no turns are fired by the background thread |
/// | [`hrtick`](Self::hrtick) | on, because this host defers the rearm of its devices |
/// | [`slice`](Self::slice) | 3 ms |
/// | [`blocking_threads`](Self::blocking_threads) | 64 at most, started when needed |
/// | [`stuck_after`](Self::stuck_after) | 100 ms |
/// | [`on_panic`](Self::on_panic) | the other tasks continue |
#[must_use = "a builder starts nothing until it is told to build"]
pub struct Builder {
    threads: WorkersBuilder,
    settings: Settings,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Builder")
            .field("threads", &self.threads)
            .field("settings", &self.settings)
            .finish()
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            threads: Workers::builder().name("tickless-executor"),
            settings: Settings::default(),
        }
    }

    /// Sets the number of workers.
    pub fn workers(mut self, workers: usize) -> Self {
        self.threads = self.threads.workers(workers);
        self
    }

    /// Pins one worker to each of these CPUs, in the order of their numbers. A pinned worker without tasks pulls tasks
    /// first from workers that share its core, then from those that share its last cache, then its memory.
    pub fn pin(mut self, cpus: CpuSet) -> Self {
        self.threads = self.threads.pin(cpus);
        self
    }

    /// Sets the name of the worker threads; each gets its number appended.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.threads = self.threads.name(name);
        self
    }

    /// Sets whether the background thread fires the exact timers of a worker that has taken no turn within 10 ms after
    /// its first timer was due. A worker takes no turn while a task computes, or blocks without the executor's
    /// knowledge. Default: the background thread fires them.
    pub fn helped(mut self, is_helped: bool) -> Self {
        self.threads = self.threads.helped(is_helped);
        self
    }

    /// Sets whether a timer ends each slice exactly. Without that timer, a task that calls checkpoints yields only when
    /// a more urgent task is woken, or when any other timer of its worker is due.
    pub fn hrtick(mut self, on: bool) -> Self {
        self.settings.hrtick = on;
        self
    }

    /// Sets the slice of tasks that are spawned without a slice of their own, from 10 µs to 100 ms; other durations
    /// become the nearest of the two, as by [`Slice::new`].
    pub fn slice(mut self, slice: Duration) -> Self {
        self.settings.slice = Slice::new(slice);
        self
    }

    /// Sets the largest number of threads that execute jobs of [`spawn_blocking`](Executor::spawn_blocking); 0 counts
    /// as 1.
    pub fn blocking_threads(mut self, most: usize) -> Self {
        self.settings.blocking_threads = most;
        self
    }

    /// Sets the reaction to a panic of a task.
    pub fn on_panic(mut self, policy: PanicPolicy) -> Self {
        self.settings.panic = policy;
        self
    }

    /// Sets the time that a poll may last before its task is reported, once for each poll.
    pub fn stuck_after(mut self, threshold: Duration) -> Self {
        self.settings.stuck_after = threshold;
        self
    }

    /// Sets the function that reports a task whose poll lasts too long. The expiry thread calls it. Default: a line on
    /// standard error.
    ///
    /// The function must not wait for the executor, as [`shutdown`](Executor::shutdown) and dropping the executor do,
    /// because the end of the worker waits for the report.
    pub fn on_stuck(mut self, report: impl Fn(&Stuck) + Send + Sync + 'static) -> Self {
        self.settings.on_stuck = Box::new(report);
        self
    }

    /// Runs the rounds of the workers inside of calls of `around`, which can count the instructions of a round. Each
    /// round schedules and polls once.
    #[cfg(feature = "internals")]
    pub fn rounds(mut self, around: super::Rounds) -> Self {
        self.settings.rounds = Some(around);
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// When the settings do not fit the machine, or when the system refuses a thread or a CPU. Everything that was
    /// started before the error is ended.
    pub fn build(self) -> Result<Executor, BuildError> {
        let count = self.threads.count()?;
        let shared: Handle = Arc::new(Shared::new(count, self.settings));
        shared
            .runtime
            .set_others(Arc::downgrade(&shared) as Weak<dyn Others>);
        // Before any worker owns the lock of its queue.
        isolation::locks::register(Arc::downgrade(&shared) as Weak<dyn OwnedLocks>);
        let of_workers = Arc::clone(&shared);
        let workers = self.threads.spawn(move |worker, index| {
            let _entered = context::enter(&of_workers);
            work::work(worker, &of_workers, index);
            if !of_workers.is_here() {
                // A task forked. Were the thread to end alone, another one would come for what timers it has, and the
                // process would wait for nothing.
                threads::end_child();
            }
        })?;
        // Before any task: none can be spawned yet.
        for (place, unparker) in shared.places.iter().zip(workers.unparkers()) {
            let _first = place.unparker.set(unparker.clone());
        }
        let cpus: Vec<_> = workers.places().map(|(_, cpu)| cpu).collect();
        if cpus.len() > 1
            && cpus.iter().all(Option::is_some)
            // A machine that does not tell has no order.
            && let Ok(machine) = Topology::read()
            && let Some(near) = StealOrder::of(&machine, &cpus)
        {
            let _first = shared.near.set(near);
        }
        Ok(Executor::new(shared, workers))
    }
}

#[cfg(test)]
mod tests {
    use tickless_sched::hrtick::Switches;

    use super::*;

    /// TICK-3.
    #[test]
    fn the_tick_is_as_the_builder_was_told() {
        for is_on in [true, false] {
            let expected = if is_on { Switches::ON } else { Switches::OFF };
            assert_eq!(Builder::new().hrtick(is_on).settings.switches(), expected);
        }
    }
}
