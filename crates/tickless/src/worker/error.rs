//! The errors of workers and event loops: at their start, of isolation and of scheduling.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;

use crate::start_error::StartError;
use crate::topology::{CpuSet, TopologyError};

/// The reasons why a worker cannot be isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationError {
    /// The worker is the only worker that is not isolated, and one such worker has to fire the coarse timers of
    /// sleeping workers.
    LastWorker,
}

impl fmt::Display for IsolationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastWorker => formatter.write_str(
                "this is the last worker that is not isolated; one has to look after those that sleep",
            ),
        }
    }
}

impl std::error::Error for IsolationError {}

/// The reasons why the set of isolated workers does not change.
#[derive(Debug)]
#[non_exhaustive]
pub enum IsolateError {
    /// The workers are not pinned, and isolation is by CPU.
    NotPinned,
    /// No worker of the set has one of the CPUs.
    NoWorkerThere {
        /// The CPUs without a worker.
        cpus: CpuSet,
        /// The CPUs of the workers.
        used: CpuSet,
    },
    /// No worker would be left to fire the coarse timers of sleeping workers.
    LastWorker,
    /// The kernel did not say which CPUs are isolated.
    Topology(TopologyError),
}

impl fmt::Display for IsolateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPinned => formatter
                .write_str("isolation goes by CPU, and the workers are pinned to none"),
            Self::NoWorkerThere { cpus, used } => write!(
                formatter,
                "CPUs {cpus} are to be isolated, but workers are on {used} only"
            ),
            Self::LastWorker => formatter.write_str(
                "no worker would be left that is not isolated; one has to look after those that sleep",
            ),
            Self::Topology(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for IsolateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Topology(error) => Some(error),
            _ => None,
        }
    }
}

/// The priorities of `SCHED_FIFO` on Linux.
pub(super) const PRIORITIES: RangeInclusive<u8> = 1..=99;

/// The reasons why the system refused to schedule a thread as requested. The thread keeps its scheduling.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The set has no CPU.
    NoCpus,
    /// The system refused the CPUs.
    Pin {
        /// The CPUs.
        cpus: CpuSet,
        /// The error of the system.
        error: io::Error,
    },
    /// The priority is not a real-time priority, which is 1 to 99. The error is final.
    PriorityOutOfRange {
        /// The requested priority.
        priority: u8,
    },
    /// The system refused the priority.
    Priority {
        /// The requested priority.
        priority: Option<u8>,
        /// The highest priority that the process may have without `CAP_SYS_NICE` (`RLIMIT_RTPRIO`); `None` if there is
        /// no limit.
        limit: Option<u64>,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCpus => formatter.write_str("a thread cannot be kept on no CPU"),
            Self::Pin { cpus, error } => {
                write!(
                    formatter,
                    "the system refused CPUs {cpus} for the thread: {error}"
                )
            }
            Self::PriorityOutOfRange { priority } => write!(
                formatter,
                "real-time priorities are {} to {}, and {priority} is none",
                PRIORITIES.start(),
                PRIORITIES.end()
            ),
            Self::Priority {
                priority: Some(priority),
                limit,
                error,
            } => {
                write!(
                    formatter,
                    "the system refused real-time priority {priority}: {error}; \
                     it takes CAP_SYS_NICE or an RLIMIT_RTPRIO of as much"
                )?;
                match limit {
                    Some(limit) => write!(formatter, ", which is {limit}"),
                    None => Ok(()),
                }
            }
            Self::Priority { error, .. } => {
                write!(
                    formatter,
                    "the system refused to take the real-time priority back: {error}"
                )
            }
        }
    }
}

impl std::error::Error for ScheduleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pin { error, .. } | Self::Priority { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The reasons why a group of workers did not start. No worker of the group runs then.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// No worker was requested.
    NoWorkers,
    /// The number of workers is larger than the largest possible number.
    TooMany {
        /// The number of workers that were requested.
        workers: usize,
        /// The largest possible number of workers.
        most: usize,
    },
    /// The name of a thread cannot contain the character NUL.
    NulInName,
    /// The number of workers is larger than the number of CPUs to pin them to.
    TooManyForCpus {
        /// The number of workers that were requested.
        workers: usize,
        /// The CPUs to pin workers to.
        cpus: CpuSet,
    },
    /// A CPU to which a worker should be pinned is offline, or does not exist.
    NotOfThisMachine {
        /// The CPUs that the machine lacks or that are offline.
        cpus: CpuSet,
        /// The CPUs of the machine.
        machine: CpuSet,
    },
    /// No worker is pinned to a CPU, and isolation is by CPU.
    IsolatedNotPinned,
    /// A CPU to isolate has no worker.
    NoWorkerThere {
        /// The CPUs without a worker.
        cpus: CpuSet,
        /// The CPUs of the workers.
        used: CpuSet,
    },
    /// Every worker would be isolated, and one worker that is not isolated has to fire the coarse timers of sleeping
    /// workers.
    AllIsolated {
        /// The CPUs of all workers.
        cpus: CpuSet,
    },
    /// The kernel did not describe the machine.
    Topology(TopologyError),
    /// The system refused a CPU, usually because this process may only use other CPUs.
    Pin {
        /// The CPU.
        cpu: u32,
        /// Error of the system.
        error: io::Error,
    },
    /// The system refused a thread.
    Thread {
        /// The number of the worker.
        number: usize,
        /// Error of the system.
        error: io::Error,
    },
    /// The system refused the real-time priority, or the number is not a real-time priority.
    Schedule(ScheduleError),
    /// A thread did not become a worker.
    Start(StartError),
    /// A worker could not be isolated.
    Isolation(IsolationError),
    /// A thread ended before it began to work.
    Died,
}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorkers => {
                formatter.write_str("no workers were asked for; there has to be at least one")
            }
            Self::TooMany { workers, most } => write!(
                formatter,
                "{workers} workers were asked for, and there can be {most}"
            ),
            Self::NulInName => {
                formatter.write_str("the name of the workers contains the character NUL")
            }
            Self::TooManyForCpus { workers, cpus } => write!(
                formatter,
                "{workers} workers cannot have a CPU each on {} (CPUs {cpus}); pin them to more, or ask for fewer",
                cpus.len()
            ),
            Self::NotOfThisMachine { cpus, machine } => write!(
                formatter,
                "CPUs {cpus} are not online on this machine, which has {machine}"
            ),
            Self::IsolatedNotPinned => formatter.write_str(
                "isolation goes by CPU, and the workers are pinned to none; say which CPUs with `pin`",
            ),
            Self::NoWorkerThere { cpus, used } => write!(
                formatter,
                "CPUs {cpus} are to be isolated, but workers are on {used} only"
            ),
            Self::AllIsolated { cpus } => write!(
                formatter,
                "all workers, on CPUs {cpus}, are to be isolated; one has to look after those that sleep"
            ),
            Self::Topology(error) => error.fmt(formatter),
            Self::Pin { cpu, error } => {
                write!(formatter, "the system refused CPU {cpu} for a worker: {error}")
            }
            Self::Thread { number, error } => {
                write!(formatter, "the system refused a thread for worker {number}: {error}")
            }
            Self::Schedule(error) => error.fmt(formatter),
            Self::Start(error) => error.fmt(formatter),
            Self::Isolation(error) => error.fmt(formatter),
            Self::Died => formatter.write_str("a worker's thread ended before it began to work"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Topology(error) => Some(error),
            Self::Pin { error, .. } | Self::Thread { error, .. } => Some(error),
            Self::Schedule(error) => Some(error),
            Self::Start(error) => Some(error),
            Self::Isolation(error) => Some(error),
            _ => None,
        }
    }
}
