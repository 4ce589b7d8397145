//! The steps of a walk through the hierarchy, for observers: traces and tests.

use super::group::GroupId;
use super::state::{ChildSlot, State};
use crate::cpu::CpuId;
use crate::time::Instant;

/// A step of a walk, which [`HierarchyHost::step`](super::HierarchyHost::step) receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A walk to idle has read the group's state, and is about to read the child's.
    GroupRead {
        /// The group.
        group: GroupId,
    },
    /// A walk to idle, or a new parent, has read the child's state, and is about to change the group's.
    ChildRead {
        /// The group.
        group: GroupId,
        /// True if the child turned out to be active.
        is_active: bool,
    },
    /// The state of a group changed.
    State {
        /// The group.
        group: GroupId,
        /// Child that changed.
        child: ChildSlot,
        /// State before the change.
        old: State,
        /// State after the change.
        new: State,
    },
    /// An event is about to be published in a group, which is not locked yet.
    Publishing {
        /// The group.
        group: GroupId,
    },
    /// An event was published in a group, or found not to be worth it; the group is still locked.
    Published {
        /// The group.
        group: GroupId,
        /// The child that the event stands for.
        child: ChildSlot,
        /// The event's time, [`Instant::FOREVER`] for none.
        time: Instant,
        /// The CPU whose timers are due then.
        cpu: CpuId,
        /// The first time of the group now.
        first: Instant,
        /// True if the walk must go on although another child took over, because that child became idle since
        /// (HAZARD-1).
        is_stranded: bool,
    },
    /// An idle CPU has published its event, and is about to decide if it makes a promise.
    Promising {
        /// The CPU, whose node is locked.
        cpu: CpuId,
        /// The first time of the tree if all of it is idle, else [`Instant::FOREVER`].
        cover: Instant,
    },
    /// A CPU's timers are about to be fired by another one, or are refused.
    Serving {
        /// CPU that owns the timers.
        cpu: CpuId,
        /// The reason for the refusal.
        refused: Option<Refusal>,
    },
    /// The timers of a CPU were fired by another one, which is about to read the CPU's next time.
    Ran {
        /// CPU that owns the timers.
        cpu: CpuId,
    },
    /// The next time of that CPU is published, or the CPU woke and publishes it itself.
    Served {
        /// CPU that owns the timers.
        cpu: CpuId,
        /// The time, `None` if it woke.
        next: Option<Instant>,
    },
    /// The first time of a group may have changed; the group is locked.
    First {
        /// The group.
        group: GroupId,
        /// First time of the group now, [`Instant::FOREVER`] for none.
        first: Instant,
    },
    /// A CPU promises to wake up for others, or withdraws its promise; its node is locked.
    Wakeup {
        /// The CPU.
        cpu: CpuId,
        /// The time at which it wakes up, [`Instant::FOREVER`] if it does not.
        time: Instant,
    },
    /// A CPU went idle, as far as the hierarchy knows; its node is locked.
    Idle {
        /// The CPU.
        cpu: CpuId,
        /// First global timer of the CPU, [`Instant::FOREVER`] for none.
        time: Instant,
    },
    /// A CPU that is idle has another first global timer; its node is locked.
    NewTimer {
        /// The CPU.
        cpu: CpuId,
        /// First global timer of the CPU.
        time: Instant,
    },
    /// A CPU is about to be active again; its node is locked.
    Active {
        /// The CPU.
        cpu: CpuId,
    },
    /// A CPU takes part from now on, or no longer; its node is locked.
    Available {
        /// The CPU.
        cpu: CpuId,
        /// True if it does.
        is_available: bool,
    },
    /// A child is connected to its parent.
    Linked {
        /// The child.
        child: GroupId,
        /// Parent of the group, for ever.
        parent: GroupId,
        /// Place of the group among the children of its parent.
        slot: ChildSlot,
    },
}

/// The reasons why the timers of a CPU were not fired although its event was first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The CPU is not part of the hierarchy now.
    NotAvailable,
    /// Another CPU fires its timers at this moment.
    AlreadyServed,
    /// The CPU fires its timers itself.
    Ignored,
    /// The first timer of the CPU is later than its event was.
    NotDue,
}
