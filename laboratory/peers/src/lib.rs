//! A measurement of the costs of timers, in one process and one run: the timers of this library, the timers of its
//! peers, and the lower limit.
//!
//! The speed of the machine changes during a run, and each subject leaves the machine in another state. So the subjects
//! take turns, round after round, in an order that rotates. Each turn begins with a thread of its own and an empty
//! queue, and no timer of another subject is pending meanwhile. All subjects do the same operations, from the same
//! seed. Before a subject is measured, a test shows that it fires its due timers and no others. After each turn the
//! pending timers are counted.
//!
//! The command `tickless bench` prints the results. The measurement has a crate of its own for two reasons: C and C++
//! libraries are linked here, with the feature `c-peers`, and the peers of the other measurements read clocks before
//! `main`.

mod measure;
mod memory;
mod operation;
mod random;
mod run;
mod slots;
mod subject;
mod subjects;
#[cfg(test)]
mod tests;

pub use memory::{available, needed};
pub use operation::Operation;
pub use run::{Fault, MOST_PENDING, Plan, Results, Row, Spread, Watch, run, subjects};
pub use subjects::{
    CHECKS_IN_C, COARSE, COARSE_IN_C, EXACT, EXACT_IN_C, Family, LOOP_IN_C, Missing, TOKIO, missing,
};
