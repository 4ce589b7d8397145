//! A measurement of the costs of timers, in one process and one run: the timers of this library, the timers of its
//! peers, and the lower limit.
//!
//! The speed of the machine changes during a run, and each subject leaves the machine in another state. So the subjects
//! take turns, round after round, in an order that rotates. Each turn begins with a thread of its own and an empty
//! queue, and no timer of another subject is pending meanwhile. All subjects do the same operations, from the same
//! seed. Before a subject is measured, a test shows that it fires its due timers and no others. After each turn the
//! pending timers are counted.
//!
//! What is no queue of timers has a group of subjects with measurements of their own (`groups`). Valgrind counts the
//! instructions of single operations ([`instructions`]).
//!
//! The command `tickless bench` prints the results. The measurement has a crate of its own because C and C++ libraries
//! are linked here, with the feature `c-peers`.

mod groups;
mod host;
pub mod instructions;
mod marks;
mod measure;
mod memory;
mod operation;
mod random;
mod rounds;
mod run;
mod slots;
mod subject;
mod subjects;
#[cfg(test)]
mod tests;
mod threads;

pub use marks::{Marked, marks, plan_of_marks};
pub use memory::{available, needed};
pub use operation::{Family, Operation};
pub use rounds::{Spread, Watch};
pub use run::{Fault, MOST_PENDING, Plan, Results, Row, run, subjects};
pub use subjects::{Missing, TOKIO, missing};
