//! Barriers on systems that have none for other threads: a lock that needs one stays an ordinary lock.

/// Answers that there are none.
pub(crate) fn register() -> bool {
    false
}

/// Answers that there are none.
pub(crate) fn execute() -> bool {
    false
}
