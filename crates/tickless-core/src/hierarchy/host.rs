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
/// The locks are taken in this order, outermost first: the construction and availability locks of the hierarchy, the
/// timer bases of one CPU ([`lock_bases`](HierarchyHost::lock_bases)), that CPU's node, groups from child to parent
/// (spec C-4.8).
pub trait HierarchyHost<const WIDTH: usize> {
    /// The lock of nodes and groups. It is held for tens of instructions, with timer bases locked around it. On a host
    /// with timer interrupts the lock MUST mask them.
    type Lock: RawLock + Default;

    /// The exclusive right to the timer bases of one CPU, which ends when the value is dropped.
    type LockedBases<'a>
    where
        Self: 'a;

    /// Returns the node of a CPU, always the same node; `None` if no such CPU ever existed.
    fn node(&self, cpu: CpuId) -> Option<&CpuNode<Self::Lock>>;

    /// Returns the highest number of a CPU with a node, plus one.
    fn cpus(&self) -> u32;

    /// Returns the group that [`place`](HierarchyHost::place) stored under `id`, always the same group.
    ///
    /// Called only for groups that were placed, by a CPU that sees the placing as past.
    fn group(&self, id: GroupId) -> &Group<Self::Lock, WIDTH>;

    /// Reserves storage for the groups 0 to `groups - 1`. Returns `false` if the storage is not available.
    ///
    /// After `true`, [`place`](HierarchyHost::place) MUST succeed for these groups. After `false` the hierarchy places
    /// no group (R24).
    fn reserve(&self, groups: u32) -> bool;

    /// Stores `group` under the number `id` for the whole life of the hierarchy. The hierarchy places the groups one at
    /// a time, in the order of their numbers, from 0.
    fn place(&self, id: GroupId, group: Group<Self::Lock, WIDTH>);

    /// Fires the global timers of `cpu` that are due at `now`, on the calling CPU. `cpu` is an idle CPU, or the calling
    /// CPU, which counts as idle then (R20).
    ///
    /// Called without locks; callbacks MAY call anything. Each callback takes one from `budget`. At zero no more
    /// callbacks run, and the remaining timers stay due. If another CPU runs these timers already, the host MAY return
    /// at once, provided that the other CPU continues until no timer is due.
    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32);

    /// Locks the timer bases of `cpu` and returns the time of its first global timer, as spec C-3.2 defines it:
    /// [`Instant::FOREVER`] if the CPU has no global timer, or wakes earlier for a timer of its own.
    ///
    /// Until the bases are released, no timer of the CPU is armed, cancelled or changed.
    fn lock_bases(&self, cpu: CpuId) -> (Self::LockedBases<'_>, Instant);

    /// Makes an available CPU leave idle soon, so that the CPU takes over the known events when it becomes idle again
    /// (Example 9).
    ///
    /// Called without locks. If the CPU is awake already, the host need not do anything. If the CPU is no longer
    /// available, its own leaving activates another CPU.
    fn activate(&self, cpu: CpuId);

    /// Reports a step that happened or is about to happen. The steps of one CPU are reported in their order.
    ///
    /// The reports serve traces (spec C-10.2) and tests. A test MAY run other CPUs inside of this call, as long as
    /// these need no lock that is held. A host without an implementation pays nothing for the call.
    #[inline]
    fn step(&self, step: Step) {
        let _ = step;
    }
}
