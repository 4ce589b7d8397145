//! The scheduling of the calling thread by the kernel: its CPU, its policy and its priority.
//!
//! The functions take the name of the option that asked for the setting, because it differs from command to command and
//! errors name it.

use clap::ValueEnum;
use rustix::thread::sched_setaffinity;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::failure::Failure;

/// The kernel's rule for choosing among threads that want to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Fairly: the default of all threads
    #[value(alias = "normal")]
    Other,
    /// Highest priority first, until it waits
    Fifo,
    /// Highest priority first, with time slices among equals
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
    sched_setaffinity(None, &set).map_err(|error| {
        // The kernel has one number for both.
        let why = match error {
            rustix::io::Errno::INVAL => {
                "the kernel refuses it, because the CPU went offline or the control group (cpuset) of this process \
                 does not include it"
                    .to_owned()
            }
            error => error.to_string(),
        };
        Failure::Machine(format!("cannot run on CPU {cpu} ({option}): {why}"))
    })
}

/// Gives the calling thread a real-time priority, if the policy has any, as `option` asked for.
pub(crate) fn set_priority(policy: Policy, priority: u8, option: &str) -> Result<(), Failure> {
    let Some(real_time) = policy.real_time() else {
        return Ok(());
    };
    let wanted = ThreadSchedulePolicy::Realtime(real_time);
    let value = ThreadPriorityValue::try_from(priority).map_err(|error| error.to_string());
    let set = value.and_then(|value| {
        let priority = ThreadPriority::Crossplatform(value);
        set_thread_priority_and_policy(thread_native_id(), priority, wanted)
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
