//! The records of a recording: the events of the core, and those that only the simulated machine has.
//!
//! Times are nanoseconds of virtual time. Each timer has a number of its own, and no two timers have the same number.

use serde::Serialize;
use tickless_core::trace::Event;
use tickless_core::trace::line::{Number, Setting};

/// The header of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Header {
    /// The name of the scenario.
    pub scenario: String,
    /// The name of the profile.
    pub profile: String,
    /// The seed.
    pub seed: u64,
    /// The version of the library.
    pub library: &'static str,
    /// The number of CPUs.
    pub cpus: u32,
    /// The duration of a tick. Tick `n` begins at `n` times this duration.
    pub tick: u64,
    /// The largest lateness that a timer may have.
    pub late_max: u64,
    /// The CPUs that are isolated from the beginning.
    pub isolated: Vec<u32>,
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The time of the end of the run.
    pub time: u64,
    /// The number of timers that are still queued.
    pub queued: u64,
}

/// An event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time of the event. The records of one CPU are in the order of their times. The work of a CPU is recorded as
    /// a whole, so the next record may belong to another CPU and have an earlier time.
    pub time: u64,
    /// The executing CPU; `None` for the machine itself.
    pub cpu: Option<u32>,
    /// The event.
    pub what: Recorded,
}

/// The content of a record. A trace file has a line for each: [`Line`](tickless_core::trace::line::Line),
/// [`Setting::line`], and an object with the keys of [`MachineEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The core reported an event.
    Library {
        /// The event, of a type that a trace file has lines for.
        event: Event,
        /// The number of the event's timer, if the event has one.
        timer: Number,
    },
    /// The tree of the hierarchy has such a part. These records come first.
    Tree(Setting),
    /// The machine did something that the core does not see.
    Machine(MachineEvent),
}

/// The events that only the simulator records. Each has the name of the kernel's trace event, if the kernel has such an
/// event. `of_cpu` is the CPU to which the event belongs; `None` means never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "docs/trace.md has a table of all events and their keys"
)]
pub enum MachineEvent {
    /// A program learned that its timer is cancelled and its callback does not run.
    TimerDeleteSync {
        timer: u64,
    },
    /// A CPU read the clock, with this result.
    ClockRead {
        now: i64,
    },
    IrqHandlerEntry {
        name: &'static str,
    },
    IrqHandlerExit {
        name: &'static str,
    },
    SoftirqEntry {
        vec: &'static str,
    },
    SoftirqExit {
        vec: &'static str,
    },
    IpiSendCpu {
        of_cpu: u32,
        reason: &'static str,
    },
    SchedSwitch {
        prev: Option<u32>,
        next: Option<u32>,
    },
    /// A CPU sleeps in `state` until `wakes`, or ends that sleep.
    CpuIdle {
        state: Option<String>,
        wakes: Option<i64>,
    },
    CpuOnline {
        of_cpu: u32,
        online: bool,
    },
    CpuIsolated {
        of_cpu: u32,
        isolated: bool,
    },
}
