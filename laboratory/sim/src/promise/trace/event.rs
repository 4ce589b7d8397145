//! The lines of a trace, as `docs/trace.md` describes them.

use serde::{Deserialize, Deserializer};

/// The description of a trace, its first line.
#[derive(Clone, Debug, Deserialize)]
pub struct Header {
    /// The number of CPUs.
    pub cpus: u32,
    /// The duration of a tick, in nanoseconds. Tick `n` begins at `n` times this duration.
    pub tick: u64,
    /// The largest lateness that a timer may have, in nanoseconds.
    pub late_max: u64,
    /// The CPUs that are isolated from the beginning.
    pub isolated: Vec<u32>,
}

/// The keys that each line but the first one has.
#[derive(Clone, Debug, Deserialize)]
pub struct Head {
    /// The time, in nanoseconds of the CPU's monotonic clock.
    pub time: i64,
    /// The CPU that executed; `Some(None)` for the machine itself. Only the last line has no such key.
    #[serde(default, deserialize_with = "given")]
    pub cpu: Option<Option<u32>>,
    /// The name of the event.
    pub event: String,
}

/// The wheel of a coarse timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/trace.md has them")]
pub enum Flags {
    Pinned,
    Global,
    Deferrable,
}

/// The clock of an exact timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/trace.md has them")]
pub enum TimerClock {
    Monotonic,
    Realtime,
    Boottime,
    Tai,
}

/// An event that is checked. `docs/trace.md` has a table of the events and their keys; a key that may be `null` has to be
/// there.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/trace.md has them")]
pub enum Event {
    TimerStart {
        timer: u64,
        of_cpu: u32,
        flags: Flags,
        now: u64,
        expires: u64,
        bucket_expiry: u64,
        was_armed: bool,
    },
    TimerQueued {
        timer: u64,
    },
    TimerCancel {
        timer: u64,
    },
    TimerDeleteSync {
        timer: u64,
    },
    TimerExpireEntry {
        timer: u64,
        now: u64,
        expires: u64,
    },
    TimerExpireExit {
        timer: u64,
    },
    HrtimerStart {
        hrtimer: u64,
        of_cpu: u32,
        clock: TimerClock,
        expires: i64,
        softexpires: i64,
        was_armed: bool,
    },
    HrtimerQueued {
        hrtimer: u64,
    },
    HrtimerCancel {
        hrtimer: u64,
    },
    HrtimerExpireEntry {
        hrtimer: u64,
        /// What the clock of the timer showed. A timer of the monotonic clock whose start is known needs none of the
        /// three.
        now: Option<i64>,
        expires: Option<i64>,
        softexpires: Option<i64>,
    },
    HrtimerExpireExit {
        hrtimer: u64,
    },
    HrtimerFlush {
        of_cpu: u32,
    },
    HrtimerRearm {
        of_cpu: u32,
        deferred: bool,
    },
    ClockRead {
        now: i64,
    },
    CpuIdle {
        #[serde(deserialize_with = "nullable")]
        state: Option<String>,
        #[serde(deserialize_with = "nullable")]
        wakes: Option<i64>,
    },
    CpuIsolated {
        of_cpu: u32,
        isolated: bool,
    },
    CpuOnline {
        of_cpu: u32,
    },
    IpiSendCpu {
        of_cpu: u32,
        reason: String,
    },
    IrqHandlerEntry {
        name: String,
    },
    TickStop {
        of_cpu: u32,
        #[serde(deserialize_with = "nullable")]
        wake: Option<i64>,
    },
    TickStart {
        of_cpu: u32,
    },
    TickIdleBegin {
        of_cpu: u32,
    },
    TickIdleEnd {
        of_cpu: u32,
    },
    TickEvaluate {
        of_cpu: u32,
        #[serde(deserialize_with = "nullable")]
        kept: Option<String>,
        #[serde(deserialize_with = "nullable")]
        wake: Option<i64>,
    },
    End {
        /// The number of lines, the first and the last one included.
        lines: u64,
        /// The number of timers that are still queued.
        #[serde(deserialize_with = "nullable")]
        queued: Option<u64>,
        /// The digest of the lines before.
        digest: Option<String>,
        /// The number of events that are missing after the last line.
        #[serde(default)]
        lost: u64,
    },
    /// An event whose name begins with `tmigr_`.
    #[serde(skip)]
    Hierarchy(InTree),
    /// An event that is not checked.
    #[serde(other)]
    Other,
}

/// An event of a hierarchy.
#[derive(Clone, Debug, Deserialize)]
pub struct InTree {
    /// The number of the hierarchy.
    #[serde(default)]
    pub tree: u32,
    /// The event.
    #[serde(flatten)]
    pub step: Step,
}

/// A change of the state of a group.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Change {
    /// The number of the group.
    pub group: u32,
    /// The active children, as bits.
    pub active: u16,
    /// The migrator, a bit.
    #[serde(deserialize_with = "nullable")]
    pub migrator: Option<u16>,
    /// The number of the change.
    pub seq: u64,
}

/// An event of a hierarchy that is checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event")]
#[expect(missing_docs, reason = "docs/trace.md has them")]
pub enum Step {
    #[serde(rename = "tmigr_group_set")]
    Group { group: u32 },
    #[serde(rename = "tmigr_connect_child_parent")]
    ConnectGroup { group: u32, parent: u32 },
    #[serde(rename = "tmigr_connect_cpu_parent")]
    ConnectCpu { of_cpu: u32, parent: u32 },
    #[serde(rename = "tmigr_cpu_available")]
    Available { of_cpu: u32 },
    #[serde(rename = "tmigr_cpu_unavailable")]
    Unavailable { of_cpu: u32 },
    #[serde(rename = "tmigr_cpu_wakeup")]
    Promise {
        of_cpu: u32,
        #[serde(deserialize_with = "nullable")]
        wakeup: Option<i64>,
    },
    #[serde(rename = "tmigr_group_expiry", alias = "tmigr_update_events")]
    Expiry {
        group: u32,
        #[serde(deserialize_with = "nullable")]
        next_expiry: Option<i64>,
    },
    #[serde(rename = "tmigr_group_set_cpu_active")]
    SetActive(Change),
    #[serde(rename = "tmigr_group_set_cpu_inactive")]
    SetInactive(Change),
    #[serde(rename = "tmigr_cpu_idle")]
    Idle,
    #[serde(rename = "tmigr_cpu_new_timer_idle")]
    NewTimerIdle,
    #[serde(rename = "tmigr_handle_remote_cpu")]
    Serve { of_cpu: u32 },
    #[serde(rename = "tmigr_handle_remote_cpu_done")]
    Served,
    #[serde(rename = "tmigr_cpu_active")]
    Active,
    /// An event that this version does not know.
    #[serde(other)]
    Other,
}

impl Event {
    /// Returns the CPU to which the event belongs, if the event says so.
    pub(super) const fn of_cpu(&self) -> Option<u32> {
        match *self {
            Self::TimerStart { of_cpu, .. }
            | Self::HrtimerStart { of_cpu, .. }
            | Self::HrtimerFlush { of_cpu }
            | Self::HrtimerRearm { of_cpu, .. }
            | Self::CpuIsolated { of_cpu, .. }
            | Self::CpuOnline { of_cpu }
            | Self::IpiSendCpu { of_cpu, .. }
            | Self::TickStop { of_cpu, .. }
            | Self::TickStart { of_cpu }
            | Self::TickIdleBegin { of_cpu }
            | Self::TickIdleEnd { of_cpu }
            | Self::TickEvaluate { of_cpu, .. }
            | Self::Hierarchy(InTree {
                step:
                    Step::ConnectCpu { of_cpu, .. }
                    | Step::Available { of_cpu }
                    | Step::Unavailable { of_cpu }
                    | Step::Promise { of_cpu, .. }
                    | Step::Serve { of_cpu },
                ..
            }) => Some(of_cpu),
            _ => None,
        }
    }
}

/// Reads a value or `null`. The key has to be there.
fn nullable<'d, D: Deserializer<'d>, T: Deserialize<'d>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

fn given<'d, D: Deserializer<'d>, T: Deserialize<'d>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}
