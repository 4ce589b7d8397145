//! The worker that gets the global coarse timers which an isolated one starts.

use tickless_core::platform::CpuId;

use super::trees::{members, takes_part};
use crate::host::registry::base;
use crate::host::thread::ThreadBase;

/// The worker to which the global coarse timers go that the thread on `base` starts; `None` if they stay there.
#[inline]
pub(crate) fn housekeeper(base: &ThreadBase) -> Option<CpuId> {
    let housekeeper = base.local().remote.housekeeping_cpu()?;
    housekeeping_cpu(base, housekeeper)
}

/// Has another worker get what the one on `base` starts while it is isolated, or ends that.
pub(crate) fn set_housekeeping_cpu(base: &ThreadBase, wanted: bool) {
    // No worker in particular: it is replaced when it is used.
    base.local()
        .remote
        .set_housekeeping_cpu(wanted.then(|| base.cpu()));
}

/// `housekeeper` if it still looks after others, or else another one from here on.
fn housekeeping_cpu(own: &ThreadBase, housekeeper: CpuId) -> Option<CpuId> {
    if takes_part(own) {
        // Not isolated.
        return None;
    }
    if base(housekeeper).is_some_and(takes_part) {
        return Some(housekeeper);
    }
    // One that turned up since is as good as any.
    let other = members().next()?.cpu();
    own.local().remote.set_housekeeping_cpu(Some(other));
    Some(other)
}
