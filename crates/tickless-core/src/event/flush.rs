//! The places of a host at which a deferred write of the device is carried out.

/// A place where a deferred rearm is carried out (spec ).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Flush {
    /// FLUSH-1: return from an interrupt to user mode, if no reschedule is pending.
    UserExit = 0,
    /// FLUSH-3: return from an interrupt to kernel mode, after a preemption.
    KernelExit,
    /// FLUSH-4: before soft work.
    SoftWork,
    /// FLUSH-5: end of a scheduler run that picked another task.
    Switched,
    /// FLUSH-5: end of a scheduler run that picked the same task.
    SameTask,
    /// FLUSH-6: entry of a nested interrupt.
    NestedInterrupt,
    /// FLUSH-7: a time-slice extension was granted in place of a reschedule.
    SliceExtension,
    /// FLUSH-8: a handler was run synchronously and returns to a masked context.
    MaskedReturn,
    /// FLUSH-9: the CPU goes offline; the rearm is dropped.
    Offline,
    /// FLUSH-10: in user space, the end of a turn, the begin of a park, the begin of soft callbacks, or the pick of a
    /// task.
    TurnEnd,
}

impl Flush {
    /// All places, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::UserExit,
        Self::KernelExit,
        Self::SoftWork,
        Self::Switched,
        Self::SameTask,
        Self::NestedInterrupt,
        Self::SliceExtension,
        Self::MaskedReturn,
        Self::Offline,
        Self::TurnEnd,
    ];

    /// The number of flush points.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the name used in dumps and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserExit => "user_exit",
            Self::KernelExit => "kernel_exit",
            Self::SoftWork => "soft_work",
            Self::Switched => "switched",
            Self::SameTask => "same_task",
            Self::NestedInterrupt => "nested_interrupt",
            Self::SliceExtension => "slice_extension",
            Self::MaskedReturn => "masked_return",
            Self::Offline => "offline",
            Self::TurnEnd => "turn_end",
        }
    }
}
