//! Barriers on systems on which a thread cannot make other threads execute one: a lock that needs such a barrier stays
//! an ordinary lock.

/// Returns that there are no barriers.
pub(crate) fn register() -> bool {
    false
}

/// Returns that there are no barriers.
pub(crate) fn execute() -> bool {
    false
}
