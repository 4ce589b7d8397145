//! The records of a recording. A record has the name of the kernel's trace event, if the kernel has such an event.
//!
//! Times are nanoseconds of virtual time. Times of coarse timers are numbers of ticks, as everywhere. `None` means
//! never. Each timer has a number of its own, and no two timers have the same number.

use serde::Serialize;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// The time of the event. The records of one CPU are in the order of their times. The work of a CPU is recorded as
    /// a whole, so the next record may belong to another CPU and have an earlier time.
    pub time: u64,
    /// The executing CPU; `None` for the machine itself.
    pub cpu: Option<u32>,
    /// The event.
    #[serde(flatten)]
    pub what: Recorded,
}

/// The events. `of_cpu` is the CPU to whose timers, device or place in the hierarchy the event belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "docs/trace.md has a table of all events and their keys"
)]
pub enum Recorded {
    TimerStart {
        timer: u64,
        of_cpu: u32,
        flags: &'static str,
        now: u64,
        expires: u64,
        bucket_expiry: u64,
        was_armed: bool,
    },
    TimerCancel {
        timer: u64,
        of_cpu: u32,
    },
    /// A program learned that its timer is cancelled and its callback does not run.
    TimerDeleteSync {
        timer: u64,
    },
    TimerExpireEntry {
        timer: u64,
        of_cpu: u32,
        now: u64,
        expires: u64,
        bucket_expiry: u64,
    },
    TimerExpireExit {
        timer: u64,
    },
    HrtimerStart {
        hrtimer: u64,
        of_cpu: u32,
        clock: &'static str,
        expires: i64,
        softexpires: i64,
        was_armed: bool,
        place: &'static str,
    },
    HrtimerCancel {
        hrtimer: u64,
        of_cpu: u32,
    },
    HrtimerExpireEntry {
        hrtimer: u64,
        of_cpu: u32,
        now: i64,
        expires: i64,
        softexpires: i64,
    },
    HrtimerExpireExit {
        hrtimer: u64,
    },
    HrtimerRearm {
        of_cpu: u32,
        next: Option<i64>,
        deferred: bool,
    },
    HrtimerClamped {
        of_cpu: u32,
        next: i64,
    },
    HrtimerWrittenLate {
        of_cpu: u32,
        next: i64,
    },
    HrtimerSpurious {
        of_cpu: u32,
    },
    HrtimerHang {
        of_cpu: u32,
        nanos: u64,
    },
    /// A timer moved to another base; a record of its start follows.
    TimerMove {
        timer: u64,
        from_cpu: u32,
        of_cpu: u32,
    },
    /// A write that an interrupt owed is carried out at `point`.
    HrtimerFlush {
        of_cpu: u32,
        point: &'static str,
        stale: bool,
    },
    TickIdleBegin {
        of_cpu: u32,
    },
    TickIdleEnd {
        of_cpu: u32,
    },
    /// A CPU decided on its tick: it is kept for a reason, or stays stopped until `wake`.
    TickEvaluate {
        of_cpu: u32,
        kept: Option<&'static str>,
        wake: Option<i64>,
    },
    TickStop {
        of_cpu: u32,
        wake: Option<i64>,
    },
    TickStart {
        of_cpu: u32,
        due: Option<i64>,
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
    TmigrGroupSet {
        group: u32,
        lvl: usize,
        numa: u32,
    },
    TmigrConnectChildParent {
        group: u32,
        parent: u32,
        groupmask: u16,
    },
    TmigrConnectCpuParent {
        of_cpu: u32,
        parent: u32,
        groupmask: u16,
    },
    TmigrGroupSetCpuActive(GroupState),
    TmigrGroupSetCpuInactive(GroupState),
    /// A CPU joins the hierarchy.
    TmigrCpuAvailable {
        of_cpu: u32,
    },
    TmigrCpuUnavailable {
        of_cpu: u32,
    },
    TmigrCpuActive {
        of_cpu: u32,
    },
    TmigrCpuIdle {
        of_cpu: u32,
        nextevt: Option<i64>,
    },
    TmigrCpuNewTimerIdle {
        of_cpu: u32,
        nextevt: Option<i64>,
    },
    /// A CPU promises to wake up at this time for other CPUs.
    TmigrCpuWakeup {
        of_cpu: u32,
        wakeup: Option<i64>,
    },
    TmigrUpdateEvents {
        group: u32,
        child: u16,
        evtcpu: Option<u32>,
        nextevt: Option<i64>,
        next_expiry: Option<i64>,
    },
    /// The time of a group's first event.
    TmigrGroupExpiry {
        group: u32,
        next_expiry: Option<i64>,
    },
    /// A CPU fires the due timers of another CPU.
    TmigrHandleRemoteCpu {
        of_cpu: u32,
    },
    TmigrHandleRemoteCpuDone {
        of_cpu: u32,
        nextevt: Option<i64>,
    },
}

/// The state of a group after a change. Each child is one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "docs/trace.md has a table of all events and their keys"
)]
pub struct GroupState {
    pub group: u32,
    pub childmask: u16,
    pub active: u16,
    pub migrator: Option<u16>,
    pub seq: u64,
}
