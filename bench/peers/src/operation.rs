//! The operations that are measured.

/// An operation that programs do with timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Arm a timer and cancel it.
    ArmCancel,
    /// The same, with a reading of the clock.
    ArmCancelClock,
    /// Push a deadline out by the time that passed since it was pushed last.
    PushSmall,
    /// The same, with a reading of the clock.
    PushSmallClock,
    /// Give a timer any other deadline.
    PushRandom,
    /// The same, with a reading of the clock.
    PushRandomClock,
    /// Push a deadline behind all others.
    PushIdle,
    /// The same, with a reading of the clock.
    PushIdleClock,
    /// Cancel a timer of many and arm it again.
    Churn,
    /// The same, with a reading of the clock.
    ChurnClock,
    /// Fire a timer, of many that are due at once.
    Expire,
    /// Make a future and drop it.
    DropUnpolled,
    /// Arm and cancel on two threads at once.
    TwoThreads,
    /// Push deadlines out by small steps on two threads at once.
    TwoThreadsPush,
    /// Cancel timers and arm them again on two threads at once.
    TwoThreadsChurn,
    /// Arm a timer that another thread cancels.
    CrossArm,
    /// Cancel a timer that another thread armed.
    CrossCancel,
    /// Bytes of a pending timer.
    Memory,
}

/// The setting that an operation needs; operations with one setting are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// A thread with so many pending timers.
    Pending,
    /// A thread with so many timers that are due at once.
    Due,
    /// None pending.
    Alone,
    /// Threads with a few timers each.
    Threads,
    /// Two threads that hand timers over.
    Across,
}

impl Operation {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 18] = [
        Self::ArmCancel,
        Self::ArmCancelClock,
        Self::PushSmall,
        Self::PushSmallClock,
        Self::PushRandom,
        Self::PushRandomClock,
        Self::PushIdle,
        Self::PushIdleClock,
        Self::Churn,
        Self::ChurnClock,
        Self::Expire,
        Self::DropUnpolled,
        Self::TwoThreads,
        Self::TwoThreadsPush,
        Self::TwoThreadsChurn,
        Self::CrossArm,
        Self::CrossCancel,
        Self::Memory,
    ];

    /// The name in arguments and data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ArmCancel => "arm-cancel",
            Self::ArmCancelClock => "arm-cancel-clock",
            Self::PushSmall => "push-small",
            Self::PushSmallClock => "push-small-clock",
            Self::PushRandom => "push-random",
            Self::PushRandomClock => "push-random-clock",
            Self::PushIdle => "push-idle",
            Self::PushIdleClock => "push-idle-clock",
            Self::Churn => "churn",
            Self::ChurnClock => "churn-clock",
            Self::Expire => "expire",
            Self::DropUnpolled => "drop-unpolled",
            Self::TwoThreads => "two-threads",
            Self::TwoThreadsPush => "two-threads-push",
            Self::TwoThreadsChurn => "two-threads-churn",
            Self::CrossArm => "cross-arm",
            Self::CrossCancel => "cross-cancel",
            Self::Memory => "memory",
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::ArmCancel => "arm a timer and cancel it",
            Self::ArmCancelClock => "arm a timer and cancel it, the clock read each time",
            Self::PushSmall => "push a deadline out by a small step",
            Self::PushSmallClock => "push a deadline out by a small step, the clock read each time",
            Self::PushRandom => "give a pending timer any other deadline",
            Self::PushRandomClock => {
                "give a pending timer any other deadline, the clock read each time"
            }
            Self::PushIdle => "push an idle timeout out to 60 s from now",
            Self::PushIdleClock => "push an idle timeout out, the clock read each time",
            Self::Churn => "cancel one of many and arm it again",
            Self::ChurnClock => "cancel one of many and arm it again, the clock read each time",
            Self::Expire => "fire a timer, all due at once; processor time of all threads",
            Self::DropUnpolled => "make a future and drop it before its first poll",
            Self::TwoThreads => "arm and cancel, on threads with their own timers",
            Self::TwoThreadsPush => "push out by a small step, on threads with their own timers",
            Self::TwoThreadsChurn => {
                "cancel one of many and arm it again, on threads with their own timers"
            }
            Self::CrossArm => "arm a timer that another thread cancels",
            Self::CrossCancel => "cancel a timer that another thread armed",
            Self::Memory => "bytes for each pending timer",
        }
    }

    /// The operation of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    pub(crate) const fn setting(self) -> Setting {
        match self {
            Self::Expire => Setting::Due,
            Self::DropUnpolled => Setting::Alone,
            Self::TwoThreads | Self::TwoThreadsPush | Self::TwoThreadsChurn => Setting::Threads,
            Self::CrossArm | Self::CrossCancel => Setting::Across,
            _ => Setting::Pending,
        }
    }

    /// Returns true if the operation happens among pending timers of one thread, and is no figure of memory.
    pub(crate) const fn is_among_pending(self) -> bool {
        matches!(self.setting(), Setting::Pending) && !matches!(self, Self::Memory)
    }

    /// Returns true if the operation is measured on one thread and on two that do the same.
    #[must_use]
    pub const fn is_on_threads(self) -> bool {
        matches!(self.setting(), Setting::Threads)
    }

    /// Returns the operation that each of those threads does.
    pub(crate) const fn of_one_thread(self) -> Self {
        match self {
            Self::TwoThreads => Self::ArmCancel,
            Self::TwoThreadsPush => Self::PushSmall,
            Self::TwoThreadsChurn => Self::Churn,
            alone => alone,
        }
    }

    /// Returns true if the clock is read for each operation, and not once in many.
    pub(crate) const fn reads_the_clock_each_time(self) -> bool {
        matches!(
            self,
            Self::ArmCancelClock
                | Self::PushSmallClock
                | Self::PushRandomClock
                | Self::PushIdleClock
                | Self::ChurnClock
        )
    }

    /// Returns true if the operation needs a pending timer.
    pub(crate) const fn needs_pending(self) -> bool {
        !matches!(self, Self::ArmCancel | Self::ArmCancelClock)
    }
}
