//! The interface that the hierarchy needs of its host.

use tickless_link::lock::RawLock;

use super::state::{ChildSlot, State};
use super::{CpuNode, Group, GroupId};
use crate::cpu::CpuId;
use crate::time::Instant;

/// The host of one hierarchy: it stores the nodes and groups, and fires timers when the hierarchy calls it.
///
/// The words MUST and MAY are meant as in RFC 2119.
///
/// # Lock order
///
/// Outermost first: the construction and availability locks of the hierarchy, the timer bases of one CPU
/// ([`lock_bases`](HierarchyHost::lock_bases)), that CPU's node, groups from child to parent (spec C-4.8).
pub trait HierarchyHost<const WIDTH: usize> {
    /// The lock of nodes and groups. It is held for tens of instructions, with timer bases locked around it; where
    /// timer interrupts can arrive it MUST mask them.
    type Lock: RawLock + Default;

    /// The right to the timer bases of one CPU, until it is dropped.
    type LockedBases<'a>
    where
        Self: 'a;

    /// Returns the node of a CPU, always the same one; `None` if there never was such a CPU.
    fn node(&self, cpu: CpuId) -> Option<&CpuNode<Self::Lock>>;

    /// Returns one more than the highest number of a CPU that has a node.
    fn cpus(&self) -> u32;

    /// Returns the group that [`place`](HierarchyHost::place) stored under `id`, always the same one.
    ///
    /// Asked only for groups that were placed, by a CPU that the placing has happened before.
    fn group(&self, id: GroupId) -> &Group<Self::Lock, WIDTH>;

    /// Makes room for groups 0 to `groups - 1`; returns `false` if there is none.
    ///
    /// After `true`, placing them MUST succeed. After `false` nothing happens (R24).
    fn reserve(&self, groups: u32) -> bool;

    /// Stores `group` under the number `id` for the whole life of the hierarchy. Numbers come in order, from 0, and one
    /// at a time.
    fn place(&self, id: GroupId, group: Group<Self::Lock, WIDTH>);

    /// Fires the global timers of `cpu` that are due at `now`, on the calling CPU. `cpu` is idle, or is the caller
    /// itself, which counts as idle (R20).
    ///
    /// Called without locks; callbacks MAY call anything. Each callback takes one from `budget`, and at zero no more
    /// run: what is left stays due. If another CPU runs these timers already, the host MAY return at once, provided
    /// that the other one goes on to what is due.
    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32);

    /// Locks the timer bases of `cpu` and returns the time of its first global timer, as spec C-3.2 defines it:
    /// [`Instant::FOREVER`] if there is none or the CPU wakes earlier for itself.
    ///
    /// Between this and the release no timer of the CPU can come, go or change.
    fn lock_bases(&self, cpu: CpuId) -> (Self::LockedBases<'_>, Instant);

    /// Makes an available CPU leave idle soon, so that it takes over the known events when it becomes idle again
    /// (Example 9).
    ///
    /// Called without locks. The CPU may be awake already, in which case nothing need be done. If it stopped being
    /// available meanwhile, its own leaving hands over again.
    fn activate(&self, cpu: CpuId);

    /// Reports a step that happened, or is about to; called in the order in which one CPU does things.
    ///
    /// For traces (spec C-10.2), and for tests, which MAY run other CPUs in here where no lock is in their way. It
    /// vanishes where it is not implemented.
    #[inline]
    fn step(&self, step: Step) {
        let _ = step;
    }
}

/// A step of a walk, which [`HierarchyHost::step`] receives.
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
