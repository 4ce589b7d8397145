//! The interface that the hierarchy needs of its host.

use tickless_link::lock::RawLock;

use super::step::Step;
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
