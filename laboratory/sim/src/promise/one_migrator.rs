//! `one_migrator`: a group with active children has exactly one migrator, which is one of them; a group without active
//! children has none.
//!
//! Checked at each change of the state of a group.

use std::fmt::Display;

/// Describes the violation if the `migrator` of a group is wrong. It and the `active` children are sets of bits.
pub(crate) fn wrong_migrator(
    group: impl Display,
    active: u32,
    migrator: Option<u32>,
) -> Option<String> {
    match migrator {
        None if active != 0 => Some(format!(
            "group {group} is active ({active:#b}) and has no migrator"
        )),
        Some(one) if one.count_ones() != 1 => Some(format!(
            "group {group} has {} migrators ({one:#b})",
            one.count_ones()
        )),
        Some(one) if active & one == 0 => Some(format!(
            "the migrator {one:#b} of group {group} is not active ({active:#b})"
        )),
        _ => None,
    }
}
