//! `one_migrator`: a group with active children has exactly one migrator, which is one of them, and another group none.
//!
//! Looked at at each change of the state of a group.

use tickless_core::hierarchy::{GroupId, Slot, State};

use super::Promise;
use crate::machine::host::Host;
use crate::model::current_cpu;

impl Host {
    /// `group` is in the state `new`: who is the migrator.
    pub(crate) fn has_one_migrator(&self, group: GroupId, new: State) -> Option<Slot> {
        let migrator = new
            .migrator()
            .filter(|_| !self.breaks(Promise::OneMigrator));
        let is_right = match migrator {
            None => !new.is_active(),
            Some(slot) => new.active().contains(slot),
        };
        if !is_right {
            let what = format!("group {} has {migrator:?} of {new:?}", group.0);
            let mut watch = self.watch.borrow_mut();
            watch.broken(Promise::OneMigrator, current_cpu::cpu(), what);
        }
        migrator
    }
}
