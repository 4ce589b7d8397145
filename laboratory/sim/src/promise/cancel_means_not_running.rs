//! `cancel_means_not_running`: after a timer was cancelled it is neither queued nor running.
//!
//! Checked after each cancel that waits.

use tickless_core::coarse::{Restart, Timeout, WheelTimer};

/// Describes the violation if `timer` is active although its cancellation was reported.
pub(crate) fn cancelled<F>(timer: &WheelTimer<F>) -> Option<String>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    timer
        .is_active()
        .then(|| "a timer that was cancelled is active".to_owned())
}
