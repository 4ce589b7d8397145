//! Runs: a run executes a [`Scenario`] and returns an [`Outcome`].

pub mod draw;
pub(crate) mod groups;
pub(crate) mod outcome;
pub(crate) mod runner;
pub(crate) mod scenario;

pub use groups::{CpuOutcome, Group};
pub use outcome::{Outcome, Residency, Share};
pub use runner::{run, run_recorded, run_twice, run_twice_recorded};
pub use scenario::Scenario;
