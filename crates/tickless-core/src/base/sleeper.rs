//! What the sleepers of both families share.

/// The member that wakes a task.
pub(crate) struct Wake;

/// What stands for the callback of a timer that wakes a task.
pub const WAKES: &str = "wakes a task";
