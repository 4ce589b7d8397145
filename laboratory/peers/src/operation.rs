//! The operations that the benchmark measures, with their names and settings.

/// An operation that programs do with timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Arm a timer and cancel it at once.
    ArmCancel,
    /// Push a deadline out by the time that has passed since its last push-out.
    PushSmall,
    /// The same as `PushSmall`, with a reading of the clock for each operation.
    PushSmallClock,
    /// Give a timer a random new deadline.
    PushRandom,
    /// Push a deadline out until it is the latest of all.
    PushIdle,
    /// Cancel one of many timers and arm it again.
    Churn,
    /// Fire one of many timers that are due at once.
    Expire,
    /// Make a future and drop it without a poll.
    DropUnpolled,
    /// Arm and cancel on two threads at once.
    TwoThreads,
    /// Push deadlines out by small steps on two threads at once.
    TwoThreadsPush,
    /// Cancel timers and arm them again on two threads at once.
    TwoThreadsChurn,
    /// Memory of a pending timer, in bytes.
    Memory,
    /// Push a deadline out in a task that sleeps now and then.
    BehindSleeps,
    /// A timeout around a future that is ready.
    TimeoutReady,
    /// Arm on one thread, and drop on another one.
    Handover,
    /// Check whether a timer is due.
    Poll,
    /// Acquire the lock of a base.
    BaseLock,
    /// Read the clock.
    Clock,
    /// Spawn and wake tasks.
    Executor,
    /// Sleep for 200 µs: how late it ends.
    Lateness,
}

/// The family of a subject, which decides with what it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A timer of Tickless.
    Tickless,
    /// A timer of tokio.
    Tokio,
    /// A timer of another library, or a simple queue.
    Peer,
    /// The lower limit of the cost, whose timers do not fire.
    Limit,
}

impl Family {
    /// Returns the family of a subject of a group, by the subject's name.
    pub(crate) fn of(subject: &str) -> Self {
        match subject {
            ours if ours.starts_with("tickless") => Self::Tickless,
            tokio if tokio.starts_with("tokio,") => Self::Tokio,
            limit if limit.starts_with("limit: ") => Self::Limit,
            _ => Self::Peer,
        }
    }
}

/// The setting that an operation needs; operations with one setting are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// One thread, with a given number of pending timers.
    Pending,
    /// One thread, with a given number of timers that are due at once.
    Due,
    /// One thread, without pending timers.
    Alone,
    /// Several threads with a few timers each.
    Threads,
    /// A measurement of each subject's own.
    Own,
}

impl Operation {
    /// All operations, in the order in which they are printed.
    pub const ALL: [Self; 20] = [
        Self::ArmCancel,
        Self::PushSmall,
        Self::PushSmallClock,
        Self::PushRandom,
        Self::PushIdle,
        Self::Churn,
        Self::Expire,
        Self::DropUnpolled,
        Self::TwoThreads,
        Self::TwoThreadsPush,
        Self::TwoThreadsChurn,
        Self::Memory,
        Self::BehindSleeps,
        Self::TimeoutReady,
        Self::Handover,
        Self::Poll,
        Self::BaseLock,
        Self::Clock,
        Self::Executor,
        Self::Lateness,
    ];

    /// Returns the name of the operation in arguments and in the output data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ArmCancel => "arm-cancel",
            Self::PushSmall => "push-small",
            Self::PushSmallClock => "push-small-clock",
            Self::PushRandom => "push-random",
            Self::PushIdle => "push-idle",
            Self::Churn => "churn",
            Self::Expire => "expire",
            Self::DropUnpolled => "drop-unpolled",
            Self::TwoThreads => "two-threads",
            Self::TwoThreadsPush => "two-threads-push",
            Self::TwoThreadsChurn => "two-threads-churn",
            Self::Memory => "memory",
            Self::BehindSleeps => "reset-behind-sleeps",
            Self::TimeoutReady => "timeout-ready",
            Self::Handover => "handover",
            Self::Poll => "poll",
            Self::BaseLock => "base-lock",
            Self::Clock => "clock",
            Self::Executor => "executor",
            Self::Lateness => "lateness",
        }
    }

    /// Returns a description of the operation in one line, for the reader of the output.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::ArmCancel => "arm a timer and cancel it",
            Self::PushSmall => "push a deadline out by a small step",
            Self::PushSmallClock => "push a deadline out by a small step, the clock read each time",
            Self::PushRandom => "give a pending timer any other deadline",
            Self::PushIdle => "push an idle timeout out to 60 s from now",
            Self::Churn => "cancel one of many and arm it again",
            Self::Expire => "fire a timer, all due at once; processor time of all threads",
            Self::DropUnpolled => "make a future and drop it before its first poll",
            Self::TwoThreads => "arm and cancel, on threads with their own timers",
            Self::TwoThreadsPush => "push out by a small step, on threads with their own timers",
            Self::TwoThreadsChurn => {
                "cancel one of many and arm it again, on threads with their own timers"
            }
            Self::Memory => "bytes for each pending timer",
            Self::BehindSleeps => {
                "push a deadline out, 500 times after each sleep of 5 ms, with a runtime of two threads"
            }
            Self::TimeoutReady => "a timeout around a future that is ready at once",
            Self::Handover => "sleeps that one thread arms and another one drops",
            Self::Poll => "is anything due? with a timer pending and nothing due",
            Self::BaseLock => "acquire the lock of a base and release it",
            Self::Clock => "read the clock",
            Self::Executor => "tasks on one worker; each wake-up, or how late",
            Self::Lateness => "how late a sleep of 200 µs ends",
        }
    }

    /// Returns the operation with this name.
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
            Self::ArmCancel
            | Self::PushSmall
            | Self::PushSmallClock
            | Self::PushRandom
            | Self::PushIdle
            | Self::Churn
            | Self::Memory => Setting::Pending,
            _ => Setting::Own,
        }
    }

    /// Returns true if the operation is measured on one thread, and on two threads that both execute it.
    #[must_use]
    pub const fn is_on_threads(self) -> bool {
        matches!(self.setting(), Setting::Threads)
    }

    /// Returns true if what is measured is no queue of timers, so that each subject has a measurement of its own.
    #[must_use]
    pub const fn is_own(self) -> bool {
        matches!(self.setting(), Setting::Own)
    }

    /// Returns the operation that each of the threads executes.
    pub(crate) const fn of_one_thread(self) -> Self {
        match self {
            Self::TwoThreads => Self::ArmCancel,
            Self::TwoThreadsPush => Self::PushSmall,
            Self::TwoThreadsChurn => Self::Churn,
            alone => alone,
        }
    }

    /// Returns true if the operation needs a pending timer.
    pub(crate) const fn needs_pending(self) -> bool {
        !matches!(self, Self::ArmCancel)
    }
}
