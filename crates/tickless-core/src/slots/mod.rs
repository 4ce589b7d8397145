//! Queues of slots: which slot a time belongs in, and which slots hold something.
//!
//! What the [wheels](crate::wheel) of coarse timers and the wheel of far exact ones share.

pub mod geometry;
pub mod moment;
pub mod pending_map;
