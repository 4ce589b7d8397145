//! The sorted queues of a CPU, and the far wheel in front of them.
//!
//! The code here is pure: it uses no base, no device, no clock and no lock. Times are arguments, and changes of the
//! first timers are results.
//!
//! # Ground rules
//!
//! - The base lock of the CPU protects all queues: a caller has mutable access or none.
//! - The far wheel takes the queues that it feeds as an argument. A timer is either in the far wheel or in a queue, and
//!   its owner word names which.

pub(crate) mod family;
pub(crate) mod far_wheel;
pub(crate) mod queues;
