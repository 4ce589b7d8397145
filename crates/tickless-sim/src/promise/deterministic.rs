//! `deterministic`: the same seed gives the same run, to the byte.
//!
//! Looked at where a scenario is run twice.

use super::{Promise, Violation};
use crate::run::outcome::Outcome;

impl Outcome {
    /// `second` came of the same scenario and seed.
    pub(crate) fn is_what_comes_again(&mut self, second: &Self) {
        if self == second {
            return;
        }
        *self.broken.entry(Promise::Deterministic).or_default() += 1;
        self.violations.push(Violation {
            promise: Promise::Deterministic,
            at: self.duration,
            cpu: 0,
            what: format!("digests {:016x} and {:016x}", self.digest, second.digest),
        });
    }
}
