//! The worker that receives the timers started on an isolated one: global coarse timers, and exact ones.

use tickless_core::hierarchy::{CpuNode, HierarchyHost};
use tickless_core::platform::{CpuId, Housekeeper, pick_target_by_table};

use super::trees::{is_member, members, takes_part, workers};
use crate::host::registry::{base, bases, timers};
use crate::host::thread::ThreadBase;

/// Bases that are looked at for a worker that is awake. Workers are among the first threads of most programs, and the
/// others may be many thousands.
const LOOKS_MAX: usize = 64;

/// The worker to which the timers go that the thread on `base` starts; `None` if they stay there.
#[inline]
pub(crate) fn housekeeper(base: &ThreadBase) -> Option<CpuId> {
    let housekeeper = base.local().remote.housekeeping_cpu()?;
    housekeeping_cpu(base, housekeeper)
}

/// Returns whether there is no such worker, as long as the thread is not isolated. One load.
#[inline]
pub(crate) fn has_none(base: &ThreadBase) -> bool {
    base.local().remote.housekeeping_cpu().is_none()
}

/// Sends the timers that are started on `base` while it is isolated to another worker, or ends that.
pub(crate) fn set_housekeeping_cpu(base: &ThreadBase, wanted: bool) {
    // No worker in particular: it is replaced when it is used.
    base.local()
        .remote
        .set_housekeeping_cpu(wanted.then(|| base.cpu()));
}

/// Sends the timers that the thread on `base` starts to this one, if that serves others and is awake.
#[cfg(test)]
pub(crate) fn send_to(base: &ThreadBase, housekeeper: Option<CpuId>) {
    base.local().remote.set_housekeeping_cpu(housekeeper);
}

/// `housekeeper` if it still looks after others and is awake; or else another one from here on, if that is better.
#[cold]
fn housekeeping_cpu(own: &ThreadBase, housekeeper: CpuId) -> Option<CpuId> {
    if takes_part(own) || !timers().platform().migration() {
        // Not isolated, or nothing moves.
        return None;
    }
    let is_there = base(housekeeper).is_some_and(takes_part);
    if is_there && is_awake(housekeeper) {
        return Some(housekeeper);
    }
    let other = match awake_near(own) {
        Some(awake) => awake,
        // All sleep: the one whose lines are here.
        None if is_there => return Some(housekeeper),
        // One that turned up since is as good as any.
        None => members().next()?.cpu(),
    };
    own.local().remote.set_housekeeping_cpu(Some(other));
    Some(other)
}

/// Returns whether the worker on the base of this number is awake, as it was a moment ago.
fn is_awake(cpu: CpuId) -> bool {
    workers()
        .host()
        .node(cpu)
        .is_some_and(|node: &CpuNode<_>| !node.is_idle())
}

/// A worker that is awake, on the NUMA node of `own` if there is one.
fn awake_near(own: &ThreadBase) -> Option<CpuId> {
    let on_node = |is_own: bool| {
        let is_on = move |other: &&ThreadBase| {
            (other.local().numa_node() == own.local().numa_node()) == is_own
        };
        let looked_at = bases().take(LOOKS_MAX).filter(|other| is_member(other));
        looked_at.filter(is_on)
    };
    let asked = |other: &'static ThreadBase| {
        let cpu = other.cpu();
        if is_awake(cpu) {
            Housekeeper::Awake(cpu)
        } else {
            Housekeeper::Asleep(cpu)
        }
    };
    // As of a thread that is not isolated, so that none is woken while the worker has one that it knows.
    let others = on_node(true).chain(on_node(false)).map(asked);
    let picked = pick_target_by_table(own.cpu(), false, others);
    (picked != own.cpu()).then_some(picked)
}
