//! Slotted queues: the slot of a time, and the map of slots that hold entries.
//!
//! The common base of the [wheels](crate::wheel) of coarse timers and of the wheel of far exact ones.

pub mod geometry;
pub mod moment;
pub mod pending_map;
