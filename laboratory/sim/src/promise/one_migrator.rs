//! `one_migrator`: a group with active children has exactly one migrator, which is one of them; a group without active
//! children has none.
//!
//! Checked at each change of the state of a group.

use tickless_core::hierarchy::{GroupId, State};

/// Describes the violation if the migrator of `group`, which is in the state `new`, is wrong.
pub(crate) fn wrong_migrator(group: GroupId, new: State) -> Option<String> {
    let is_right = match new.migrator() {
        None => !new.is_active(),
        Some(slot) => new.active().contains(slot),
    };
    (!is_right).then(|| format!("group {} has the state {new:?}", group.0))
}
