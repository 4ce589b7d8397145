//! The reasons why a CPU keeps its tick.

/// The reasons why a tick is not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeepReason {
    /// The CPU is not online.
    Offline,
    /// The CPU is not in its idle loop, and its tasks need the tick (R40).
    NotIdle,
    /// A task depends on the tick.
    Dependency,
    /// Another task is about to run.
    Reschedule,
    /// Work of the soft stage is pending.
    SoftWork,
    /// Tasks run without a tick on other CPUs, and this CPU counts the ticks for them.
    Timekeeper,
    /// Tasks run without a tick, and no CPU counts ticks. This is a mistake of the host, which has to let a
    /// housekeeping CPU tick.
    NoTimekeeper,
    /// The next event is at most one period away.
    Soon,
    /// The hierarchy returned a time that is too near (R60).
    HandedOver,
}

impl KeepReason {
    /// Returns the name used in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::NotIdle => "not_idle",
            Self::Dependency => "dependency",
            Self::Reschedule => "reschedule",
            Self::SoftWork => "soft_work",
            Self::Timekeeper => "timekeeper",
            Self::NoTimekeeper => "no_timekeeper",
            Self::Soon => "soon",
            Self::HandedOver => "handed_over",
        }
    }
}
