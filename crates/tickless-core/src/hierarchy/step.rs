//! The steps of a walk through the hierarchy, for observers: traces and tests.

use super::group::GroupId;
use super::state::{ChildSlot, State};
use crate::cpu::CpuId;
use crate::time::Instant;

/// A step of a walk, which [`HierarchyHost::step`](super::HierarchyHost::step) receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A walk to idle has read the group's state, and is about to read the child's state.
    GroupRead {
        /// The group.
        group: GroupId,
    },
    /// A walk to idle, or the connection of a new parent, has read the child's state, and is about to change the
    /// group's state.
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
    /// An event was published in a group, or the walk found that it need not be published; the group is still locked.
    Published {
        /// The group.
        group: GroupId,
        /// The child that the event stands for.
        child: ChildSlot,
        /// The event's time, [`Instant::FOREVER`] for none.
        time: Instant,
        /// The CPU that has timers due at that time.
        cpu: CpuId,
        /// The first time of the group now.
        first: Instant,
        /// True if the walk must continue although another child took over, because that child has become idle since
        /// (HAZARD-1).
        is_stranded: bool,
    },
    /// An idle CPU has published its event, and is about to decide whether it makes a promise.
    Promising {
        /// The CPU, whose node is locked.
        cpu: CpuId,
        /// The first time of the tree if the whole tree is idle; otherwise [`Instant::FOREVER`].
        cover: Instant,
    },
    /// Another CPU is about to fire the timers of a CPU, or refuses to fire them.
    Serving {
        /// CPU that owns the timers.
        cpu: CpuId,
        /// The reason for the refusal.
        refused: Option<Refusal>,
    },
    /// Another CPU has fired the timers of a CPU, and is about to read that CPU's next time.
    Ran {
        /// CPU that owns the timers.
        cpu: CpuId,
    },
    /// The next time of a served CPU is published. If the CPU woke meanwhile, it publishes the time itself.
    Served {
        /// CPU that owns the timers.
        cpu: CpuId,
        /// The next time; `None` if the CPU woke.
        next: Option<Instant>,
    },
    /// The first time of a group may have changed, other than by a publication, whose [`Published`](Self::Published)
    /// has the first time; the group is locked.
    First {
        /// The group.
        group: GroupId,
        /// First time of the group now; [`Instant::FOREVER`] for none.
        first: Instant,
    },
    /// A CPU promises to wake up for others, or withdraws its promise; its node is locked.
    Wakeup {
        /// The CPU.
        cpu: CpuId,
        /// The time at which the CPU wakes up; [`Instant::FOREVER`] without a promise.
        time: Instant,
    },
    /// The hierarchy counts a CPU as idle from now on; the CPU's node is locked.
    Idle {
        /// The CPU.
        cpu: CpuId,
        /// First global timer of the CPU, [`Instant::FOREVER`] for none.
        time: Instant,
    },
    /// An idle CPU has a new first global timer; its node is locked.
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
    /// A CPU begins or ceases to take part in the hierarchy; its node is locked.
    Available {
        /// The CPU.
        cpu: CpuId,
        /// True if the CPU takes part from now on.
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

/// The reasons why the timers of a CPU were not fired although the event of that CPU was first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The CPU is not part of the hierarchy now.
    NotAvailable,
    /// Another CPU fires the timers of the CPU at this moment.
    AlreadyServed,
    /// The CPU fires its timers itself.
    Ignored,
    /// The first timer of the CPU is later than the CPU's event.
    NotDue,
}
