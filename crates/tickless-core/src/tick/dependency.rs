//! The reasons why a CPU keeps the tick although its tasks could run without one (spec C-5.5).

use tickless_link::const_unless_loom;
use tickless_link::sync::{AtomicU32, Ordering};

/// A reason to keep the tick while a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Dependency {
    /// A timer of consumed CPU time.
    CpuTimers = 0,
    /// A counter of performance events.
    PerfEvents,
    /// The CPU has more than one runnable task.
    Scheduler,
    /// A clock is not reliable without the tick.
    UnstableClock,
    /// A thread waits until no CPU uses old data any more.
    GracePeriod,
    /// A thread waits as for [`GracePeriod`](Self::GracePeriod), and the wait must be short.
    ExpeditedGracePeriod,
}

impl Dependency {
    /// All dependencies, in the order in which they are found.
    pub const ALL: [Self; 6] = [
        Self::CpuTimers,
        Self::PerfEvents,
        Self::Scheduler,
        Self::UnstableClock,
        Self::GracePeriod,
        Self::ExpeditedGracePeriod,
    ];

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The owner of a set of dependencies, in the order of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The dependencies of every CPU.
    Global,
    /// The dependencies of one CPU, for all its tasks.
    Cpu,
    /// The dependencies of a task.
    Task,
    /// The dependencies of a process, for all its tasks.
    Process,
}

/// The dependencies on the tick in one [`Scope`].
#[derive(Debug, Default)]
pub struct Dependencies(AtomicU32);

impl Dependencies {
    const_unless_loom! {
        /// Makes an empty set of dependencies.
        pub const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Adds `dependency`. Returns true if the set was empty before. In that case the host MUST kick every affected CPU,
    /// so that the CPU checks again. Clearing needs no kick.
    #[must_use = "the CPUs that are concerned have to be kicked"]
    pub fn set(&self, dependency: Dependency) -> bool {
        // AcqRel: pairs with the Acquire in `first`. The kick comes after it, and a CPU that takes a kick clears its
        // note before it looks here, so that a kick that finds one under way is not lost (R44).
        self.0.fetch_or(dependency.bit(), Ordering::AcqRel) == 0
    }

    /// Removes `dependency`.
    pub fn clear(&self, dependency: Dependency) {
        // Release: what depended on the tick has happened.
        self.0.fetch_and(!dependency.bit(), Ordering::Release);
    }

    /// Returns the first dependency of the set.
    #[must_use]
    pub fn first(&self) -> Option<Dependency> {
        // Acquire: see `set`.
        let mask = self.0.load(Ordering::Acquire);
        Dependency::ALL
            .into_iter()
            .find(|dependency| mask & dependency.bit() != 0)
    }
}

/// Returns the first dependency that keeps the tick of a CPU that runs a task, in the order of the [`Scope`]s.
#[must_use]
pub fn first_dependency(
    global: &Dependencies,
    cpu: &Dependencies,
    task: &Dependencies,
    process: &Dependencies,
) -> Option<(Scope, Dependency)> {
    [
        (Scope::Global, global),
        (Scope::Cpu, cpu),
        (Scope::Task, task),
        (Scope::Process, process),
    ]
    .into_iter()
    .find_map(|(scope, dependencies)| Some((scope, dependencies.first()?)))
}
