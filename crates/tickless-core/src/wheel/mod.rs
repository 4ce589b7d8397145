//! The timer wheel: a queue with constant cost, for timeouts that are nearly always cancelled or pushed out.
//!
//! A timeout is enqueued in a *slot* that depends on its distance: a near timeout in a fine slot, a far timeout in a
//! coarse slot. The timeout stays in its slot until the slot is due, and then fires. The wheel does not cascade. A
//! classical wheel moves far timers to finer slots again and again as their time approaches. That effort helps only the
//! few timeouts that fire, but all timeouts pay for it (spec C-1.1).
//!
//! So a timeout is late by up to one slot of its level, plus the tick in progress. One slot is about an eighth of the
//! time for which the timeout was armed: a level begins at 63 slots of the level below, so the bound is 8/63 or 12.7 %.
//! A timeout is never early. A timeout beyond the range of the wheel is enqueued in the farthest slot, and enqueued
//! again when that slot is due.
//!
//! # Words
//!
//! A *tick* is the unit of the wheel, chosen by the host, usually a millisecond. The *clock* of a wheel is the first
//! tick that it has not processed yet. A slot is *due* at the tick at which all its timers fire.
//!
//! The module [`slots`](crate::slots) computes the slot of a time and keeps the map of occupied slots. The module
//! [`coarse`](crate::coarse) contains the operations of users and hosts on coarse timers.
//!
//! # Ground rules
//!
//! - The code here is pure: it uses no base, no device and no clock. The tick in progress is an argument.
//! - The base lock of the CPU protects a wheel: a caller has mutable access to it or none. Only the expiry of a timer
//!   is read without the lock.

pub(crate) mod cpu_wheel;
pub(crate) mod family;
pub mod idle;
pub mod rounding;
