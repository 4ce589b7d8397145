//! What a measuring thread and the machine are set to: priority, CPU, idle states.

use std::fs::File;
use std::io::Write;

use clap::ValueEnum;
use rustix::thread::sched_setaffinity;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use super::arguments::Seat;
use crate::failure::Failure;

/// How the kernel chooses among threads that want to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Policy {
    /// Fairly: the default of all threads
    #[value(alias = "normal")]
    Other,
    /// By priority, until it waits
    Fifo,
    /// By priority, with time slices among equals
    Rr,
}

impl Policy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo => "fifo",
            Self::Rr => "rr",
        }
    }

    pub(super) fn is_real_time(self) -> bool {
        self.real_time().is_some()
    }

    fn real_time(self) -> Option<RealtimeThreadSchedulePolicy> {
        match self {
            Self::Other => None,
            Self::Fifo => Some(RealtimeThreadSchedulePolicy::Fifo),
            Self::Rr => Some(RealtimeThreadSchedulePolicy::RoundRobin),
        }
    }
}

/// Puts the calling thread where it belongs.
pub(super) fn apply(policy: Policy, seat: &Seat) -> Result<(), Failure> {
    if let Some(cpu) = seat.cpu {
        let mut set = rustix::thread::CpuSet::new();
        let number = usize::try_from(cpu).unwrap_or(usize::MAX);
        if number < rustix::thread::CpuSet::MAX_CPU {
            set.set(number);
        }
        sched_setaffinity(None, &set)
            .map_err(|error| Failure::Machine(format!("cannot run on CPU {cpu} (-a): {error}")))?;
    }
    if let Some(real_time) = policy.real_time() {
        let priority = seat.priority;
        let set = ThreadPriorityValue::try_from(priority)
            .map_err(|error| error.to_string())
            .and_then(|value| {
                set_thread_priority_and_policy(
                    thread_native_id(),
                    ThreadPriority::Crossplatform(value),
                    ThreadSchedulePolicy::Realtime(real_time),
                )
                .map_err(|error| error.to_string())
            });
        set.map_err(|error| {
            Failure::Machine(format!(
                "cannot have priority {priority} of policy {} (-p): {error}; that takes root, CAP_SYS_NICE or a limit \
                 (ulimit -r {priority})",
                policy.name()
            ))
        })?;
    }
    Ok(())
}

/// A demand to leave idle states fast, which lasts as long as this lives.
#[derive(Debug)]
pub(super) struct PowerManagement {
    latency: u32,
    /// The file that the kernel watches: closing it ends the demand.
    demand: Result<File, String>,
}

const DEMANDS: &str = "/dev/cpu_dma_latency";

impl PowerManagement {
    pub(super) fn limit(latency: u32) -> Self {
        let demand = File::options().write(true).open(DEMANDS);
        let demand = demand.and_then(|mut file| {
            // As many bytes as the kernel's number has, in the machine's order.
            file.write_all(&latency.to_ne_bytes())?;
            Ok(file)
        });
        Self {
            latency,
            demand: demand.map_err(|error| error.to_string()),
        }
    }

    /// What became of it, for people. Not being allowed to is nothing to stop for.
    pub(super) fn line(&self) -> String {
        match &self.demand {
            Ok(_) => format!("# {DEMANDS} set to {}us\n", self.latency),
            Err(error) => format!("# {DEMANDS} left as it is: {error}\n"),
        }
    }
}
