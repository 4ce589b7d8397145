//! What the kernel is told about the calling thread: its CPU, its priority.
//!
//! The options that ask for it differ from command to command, so that errors name the one that was used.

use clap::ValueEnum;
use rustix::thread::sched_setaffinity;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::failure::Failure;

/// How the kernel chooses among threads that want to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Fairly: the default of all threads
    #[value(alias = "normal")]
    Other,
    /// By priority, until it waits
    Fifo,
    /// By priority, with time slices among equals
    Rr,
}

impl Policy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo => "fifo",
            Self::Rr => "rr",
        }
    }

    pub(crate) fn is_real_time(self) -> bool {
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

/// Lets the calling thread run on `cpu` only, as `option` asked for.
pub(crate) fn pin(cpu: u32, option: &str) -> Result<(), Failure> {
    let mut set = rustix::thread::CpuSet::new();
    let number = usize::try_from(cpu).unwrap_or(usize::MAX);
    if number < rustix::thread::CpuSet::MAX_CPU {
        set.set(number);
    }
    sched_setaffinity(None, &set)
        .map_err(|error| Failure::Machine(format!("cannot run on CPU {cpu} ({option}): {error}")))
}

/// Gives the calling thread a real-time priority, if the policy has any, as `option` asked for.
pub(crate) fn set_priority(policy: Policy, priority: u8, option: &str) -> Result<(), Failure> {
    let Some(real_time) = policy.real_time() else {
        return Ok(());
    };
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
            "cannot have priority {priority} of policy {} ({option}): {error}; that takes root, CAP_SYS_NICE or a \
             limit (ulimit -r {priority})",
            policy.name()
        ))
    })
}
