//! The arithmetic of slotted queues: the slot of a time, and the map of slots that hold entries.
//!
//! The [wheels](crate::wheel) of coarse timers and the far wheel of exact timers are built on this module.

pub mod geometry;
pub mod moment;
pub mod pending_map;
