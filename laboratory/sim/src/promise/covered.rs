//! `covered`: another CPU has the duty of firing every global timer of a sleeping CPU (PULL-2).
//!
//! Checked in a run every 10 ms, between two events, while no walk through the hierarchy is in progress; in a trace when
//! a CPU goes to sleep.

use std::fmt::Display;

/// A group on the way from a CPU to the root.
pub(crate) struct Level<T> {
    pub(crate) group: u32,
    /// The first time for which the group has to be looked at; `None` if that is not known.
    pub(crate) first: Option<T>,
    /// True if a CPU below the group is awake, or may be.
    pub(crate) is_active: bool,
}

/// Describes the violation if no CPU covers a timer of `time` of a sleeping CPU. The CPU is below the groups of `levels`,
/// and `promised` is the first time at which a CPU promised to wake for others.
pub(crate) fn uncovered<T: Ord + Display>(
    levels: impl Iterator<Item = Level<T>>,
    time: &T,
    promised: Option<T>,
) -> Option<String> {
    for level in levels {
        if level.first.is_some_and(|first| first > *time) {
            return Some(format!("group {} was not told", level.group));
        }
        if level.is_active {
            // Its migrator is awake and looks here.
            return None;
        }
    }
    unpromised(time, promised)
}

/// Describes the violation if no CPU promised to wake up by `time`, while all of them sleep.
pub(crate) fn unpromised<T: Ord + Display>(time: &T, promised: Option<T>) -> Option<String> {
    match promised {
        Some(first) if first <= *time => None,
        Some(first) => Some(format!("all CPUs sleep, and promised {first} only")),
        None => Some("all CPUs sleep, and none promised".to_owned()),
    }
}
