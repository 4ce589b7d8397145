//! `isolated_undisturbed`: a CPU that is isolated runs no timer of another, and serves nobody.
//!
//! Looked at when a CPU does either.

use super::Promise;
use crate::promise::trace_checker::Watch;

impl Watch {
    /// `cpu` does for another CPU what this says.
    pub(crate) fn is_undisturbed(&mut self, cpu: u32, what: impl FnOnce() -> String) {
        if self.isolated.get(cpu as usize) == Some(&true) {
            self.broken(Promise::IsolatedUndisturbed, cpu, what());
        }
    }
}
