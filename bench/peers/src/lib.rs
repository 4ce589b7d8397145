//! The costs of timers: this library's, its peers', and the least that is possible, in one process and one run.
//!
//! The machine changes its speed while it is measured, and each subject leaves it in another state. So the subjects
//! take turns, round after round, in an order that rotates; each begins with a thread of its own and with an empty
//! queue, and nothing of the others is pending meanwhile. All do the same, by the same seed. Before it is measured,
//! each one is seen to fire what is due and nothing else, and behind each turn the pending timers are counted.
//!
//! The command `tickless bench` prints it. A crate of its own, because programs of C and C++ are linked here, behind
//! the feature `c-peers`, and because the peers of the other measurements read clocks before `main`.

pub mod lines;
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
