//! The worker that receives the timers that an isolated worker starts: global coarse timers, and exact timers.

use tickless_core::hierarchy::{CpuNode, HierarchyHost};
use tickless_core::platform::{CpuId, Housekeeper, pick_target_by_table};

use super::trees::{is_member, members, takes_part, workers};
use crate::host::registry::{base, bases, timers};
use crate::host::thread::ThreadBase;

/// The number of bases that are searched for a worker that is awake. Workers are among the first threads of most
/// programs, and there may be thousands of other threads.
const LOOKS_MAX: usize = 64;

/// Returns the worker to which the timers move that the thread on `base` starts; `None` if they stay on `base`.
#[inline]
pub(crate) fn housekeeper(base: &ThreadBase) -> Option<CpuId> {
    let housekeeper = base.local().remote.housekeeping_cpu()?;
    housekeeping_cpu(base, housekeeper)
}

/// Returns whether the timers of `base` have no such worker, as long as the thread is not isolated. One load.
#[inline]
pub(crate) fn has_none(base: &ThreadBase) -> bool {
    base.local().remote.housekeeping_cpu().is_none()
}

/// Sets whether the timers that are started on `base` while it is isolated move to another worker.
pub(crate) fn set_housekeeping_cpu(base: &ThreadBase, wanted: bool) {
    // No worker in particular: it is replaced when it is used.
    base.local()
        .remote
        .set_housekeeping_cpu(wanted.then(|| base.cpu()));
}

/// Makes the timers that the thread on `base` starts move to `housekeeper`, if that worker serves others and is awake.
#[cfg(test)]
pub(crate) fn send_to(base: &ThreadBase, housekeeper: Option<CpuId>) {
    base.local().remote.set_housekeeping_cpu(housekeeper);
}

/// Returns `housekeeper` if that worker still fires timers of others and is awake; or else another worker from now on,
/// if that is better.
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

/// Returns whether the worker on the base of this number was awake a moment ago.
fn is_awake(cpu: CpuId) -> bool {
    workers()
        .host()
        .node(cpu)
        .is_some_and(|node: &CpuNode<_>| !node.is_idle())
}

/// Returns a worker that is awake, on the NUMA node of `own` if there is one.
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
