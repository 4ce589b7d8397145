//! A run: a [`Scenario`] goes in, an [`Outcome`] comes out.

pub mod draw;
pub(crate) mod groups;
pub(crate) mod needs;
pub(crate) mod outcome;
pub(crate) mod scenario;

pub use groups::{Group, Tally};
pub use needs::{Limits, Needs, TooMuch};
pub use outcome::{CpuOutcome, Outcome, Residency};
pub use scenario::{Scenario, run, run_recorded, run_twice, run_twice_recorded};
