//! Queues of slots: which slot a time belongs in, and which slots hold something.
//!
//! The common base of the [wheels](crate::wheel) of coarse timers and of the wheel of far exact ones.

pub mod geometry;
pub mod moment;
pub mod pending_map;
