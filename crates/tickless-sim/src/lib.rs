//! Deterministic virtual machines: a host of the core in which time is a number, next to user space.
//!
//! Nothing of the timer subsystem is imitated here: the machines run the real `tickless-core` and only provide what a
//! host provides. One thread executes everything, and the same calls give the same result, to the byte. There are two
//! instruments:
//!
//! - [`run()`] lets a [`Scenario`] happen on a machine of up to 4,096 CPUs on which everything costs, with workloads,
//!   faults, and promises that are checked while they run.
//! - [`Process`] is the user-space host in virtual time, to compare with a real one.
#![deny(rustdoc::broken_intra_doc_links)]

pub mod baseline;
pub mod call;
mod clock;
pub mod fault;
pub mod headline;
pub mod hierarchy;
mod machine;
pub mod model;
pub mod owned;
pub mod process;
pub mod promise;
pub mod random;
pub mod record;
pub mod run;
pub mod tables;
pub mod wakener;
pub mod workload;

pub use baseline::Policy;
pub use clock::{CounterModel, STAND_IN};
pub use fault::{Fault, FaultKind, When};
pub use model::{
    BroadcastDevice, CPUS_MAX, Cost, Costs, Device, DeviceClass, Distance, EMBEDDED, IdleState,
    InputError, Mark, Numbering, Picos, Place, Profile, Topology,
};
pub use process::{Process, ProcessCounts};
pub use promise::{Canary, Promise, Violation};
pub use record::{Counts, Distribution, Tally};
pub use run::{
    CpuOutcome, Group, Limits, Needs, Outcome, Residency, Scenario, TooMuch, draw, run,
    run_recorded, run_twice, run_twice_recorded,
};
pub use workload::{Placed, Range, WallClock, Workload};
