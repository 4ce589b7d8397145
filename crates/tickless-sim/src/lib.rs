//! Deterministic virtual machines: a host of the core in which time is a number, next to user space.
//!
//! Nothing of the timer subsystem is imitated here: the machines run the real `tickless-core` and only provide what a
//! host provides. One thread executes everything, and the same calls give the same result, to the byte. There are two
//! instruments:
//!
//! - [`world`] has machines of up to 4,096 CPUs in which everything costs, with workloads, faults, and promises that
//!   are checked while they run.
//! - [`world::Process`] is the user-space host in virtual time, to compare with a real one.
#![deny(rustdoc::broken_intra_doc_links)]

pub mod call;
pub mod hierarchy;
pub mod model;
pub mod owned;
pub mod random;
pub mod tables;
pub mod wakener;
pub mod world;

pub use model::DeviceClass;
