//! `cancel_means_not_running`: after a timer was cancelled it neither waits nor runs.
//!
//! Looked at after each cancel that waits.

use tickless_core::coarse::{Rearm, Timeout, WheelTimer};

use super::Promise;
use crate::machine::host::Host;
use crate::model::current_cpu;

impl Host {
    /// Whether `timer` is what somebody was told: cancelled.
    pub(crate) fn is_cancelled<F>(&self, timer: &WheelTimer<F>) -> bool
    where
        F: FnMut(&Timeout) -> Rearm + Send + 'static,
    {
        let is_cancelled = !timer.is_active();
        if !is_cancelled {
            let what = "a timer that was cancelled is active";
            let promise = Promise::CancelMeansNotRunning;
            self.watch
                .borrow_mut()
                .broken(promise, current_cpu::cpu(), what);
        }
        is_cancelled
    }
}
