//! `one_migrator`: a group with active children has exactly one migrator, which is one of them; a group without active
//! children has none.
//!
//! Checked at each change of the state of a group.

use tickless_core::hierarchy::{ChildSlot, GroupId, State};

/// Describes the violation if the migrator of `group`, which is in the state `new`, is wrong.
pub(crate) fn wrong_migrator(
    group: GroupId,
    new: State,
    migrator: Option<ChildSlot>,
) -> Option<String> {
    let is_right = match migrator {
        None => !new.is_active(),
        Some(slot) => new.active().contains(slot),
    };
    (!is_right).then(|| format!("group {} has {migrator:?} of {new:?}", group.0))
}
