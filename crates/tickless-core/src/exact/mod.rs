//! The sorted queues of a CPU, and the far wheel in front of them.
//!
//! Pure: nothing here knows a base, a device, a clock or a lock. Times are arguments, and what changes about the first
//! timers is an answer.
//!
//! # Ground rules
//!
//! - The base lock of the CPU protects all of it: a caller has it mutably, or not at all.
//! - The far wheel takes the queues that it feeds as an argument. A timer is in one of both, as its owner word says.

pub(crate) mod family;
pub(crate) mod far_wheel;
pub(crate) mod queues;
