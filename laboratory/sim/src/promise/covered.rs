//! `covered`: another CPU has the duty of firing every global timer of a sleeping CPU (PULL-2).
//!
//! Checked every 10 ms, between two events, while no walk through the hierarchy is in progress.

use tickless_core::hierarchy::{CpuNode, HierarchyHost};
use tickless_core::time::Instant;

use crate::model::time::Picos;

/// The promises of the CPUs.
#[derive(Clone, Copy)]
pub(crate) struct Promised {
    /// The earliest time at which a CPU promised to wake for other CPUs.
    pub(crate) first: Instant,
    /// True if a CPU that went offline made another CPU its heir. The heir is about to wake up and to promise; the
    /// groups have all times already.
    pub(crate) has_heirs: bool,
}

/// Describes the violation if no CPU covers the first global timer of the sleeping CPU of `node`, which is due at
/// `time`.
pub(crate) fn uncovered<S: HierarchyHost<WIDTH>, const WIDTH: usize>(
    tables: &S,
    node: &CpuNode<S::Lock>,
    time: Instant,
    promised: Promised,
) -> Option<String> {
    let mut level = node.leaf();
    let mut is_told = true;
    while let Some(id) = level {
        let group = tables.group(id);
        is_told &= group.first() <= time;
        if group.state().is_active() {
            // Its migrator is awake and looks here.
            break;
        }
        level = group.parent();
        is_told &= level.is_some() || promised.first <= time || promised.has_heirs;
    }
    (!is_told).then(|| {
        let time = Picos::of_instant(time);
        format!("no CPU looks after its global timer of {time}")
    })
}
