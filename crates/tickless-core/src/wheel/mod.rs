//! The timer wheel: a queue with constant cost, for timeouts that are nearly always cancelled or pushed out.
//!
//! A timeout is filed in a *slot*, by how far ahead it is: near ones in fine slots, far ones in coarse ones. It stays
//! there until the slot is due, and then fires. Nothing cascades: a classical wheel files far timers again and again as
//! they come closer, which costs for all timeouts what only those few would need that fire at all (spec C-1.1).
//!
//! So a timeout is late by up to a slot of its level, which is an eighth of the time it was armed for (63 slots of one
//! level reach to the next: 8/63, or 12.7 %), plus the tick in progress. It is never early: beyond the range of the
//! wheel it is filed in the farthest slot, and again when that is due.
//!
//! # Words
//!
//! A *tick* is the unit of the wheel, chosen by the host, usually a millisecond. The *clock* of a wheel is the first
//! tick that it has not processed yet. A slot is *due* at the tick at which all that is in it fires.
//!
//! Which slot a time belongs in, and which slots hold something, is in [`slots`](crate::slots); what users and hosts do
//! with coarse timers in [`coarse`](crate::coarse).
//!
//! # Ground rules
//!
//! - Pure: nothing here knows a base, a device or a clock. The tick in progress is an argument.
//! - The base lock of the CPU protects a wheel: a caller has it mutably, or not at all. Only the expiry of a timer is
//!   read without it.

pub(crate) mod cpu_wheel;
pub(crate) mod family;
pub mod idle;
pub mod rounding;
