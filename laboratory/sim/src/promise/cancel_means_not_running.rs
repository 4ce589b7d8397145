//! `cancel_means_not_running`: after a timer was cancelled it is neither queued nor running.
//!
//! Checked after each cancel that waits; in a trace also at each start, cancel, expiry and end of a callback.

/// Describes the violation if the timer, described by `whose`, is active although its cancellation was reported.
pub(crate) fn cancelled(is_active: bool, whose: impl FnOnce() -> String) -> Option<String> {
    is_active.then(|| format!("{} was cancelled, and is queued or runs", whose()))
}
