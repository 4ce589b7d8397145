//! The sorted queues of a CPU, and the wheel of far timers in front of them.

pub(crate) mod family;
pub(crate) mod far_wheel;
pub(crate) mod queues;
