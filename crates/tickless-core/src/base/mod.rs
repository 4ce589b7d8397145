//! The base of a CPU: its queues and its event device, under one lock.
//!
//! A [`CpuBase`] has eight exact queues with a far wheel in front of them, three wheels, and an event device. No queue
//! accesses another queue. The operations on timers of a locked base are in [`hrtimer`](crate::hrtimer) and
//! [`coarse`](crate::coarse). Both use a `BaseGuard`, which represents the base while its lock is held.
//!
//! A host calls the methods of [`Timers`]. A user calls the methods of a timer.
//!
//! # Ground rules
//!
//! - Each base has one lock. It protects the queues and wheels of the base, all timers that name one of these as their
//!   owner, and the caches and the device of the base (spec LOC-1). A thread finds the lock of a timer through the
//!   owner word of the timer, and checks that word again after it has acquired the lock (spec LOC-2, R10).
//! - A thread locks one base at a time. The only exception is a thread that takes a CPU offline: it locks the leaving
//!   base first, and the host serialises such threads (spec LOC-9).
//! - Lock order: expiry lock of a base, then its base lock.
//! - While a timer moves to another base, it names no owner for a short time; a thread that searches for the owner
//!   waits (spec LOC-3).
//! - Callbacks run, and wakers are used, without the lock of any base. While its callback runs, a timer keeps its base
//!   (spec OBJ-15, C-1.9); a start meanwhile queues the timer although its callback still runs.
//! - A host that [freezes](CpuBase::freeze) bases locks them in the order of their CPUs' numbers. It
//!   [abandons](Frozen::abandon) only the work of threads that no longer exist.

pub(crate) mod callback;
mod check;
pub(crate) mod cpu_base;
pub(crate) mod expirer;
pub(crate) mod frozen;
pub(crate) mod guard;
mod kick;
#[cfg(all(test, loom))]
pub(crate) mod model;
pub(crate) mod overrun;
pub(crate) mod owner;
pub(crate) mod runner;
pub(crate) mod sleeper;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod timers;

pub use self::callback::TryCancel;
pub use self::cpu_base::CpuBase;
pub use self::expirer::BaseTypes;
pub use self::frozen::Frozen;
pub use self::overrun::Overrun;
pub use self::sleeper::TimerQueue;
pub use self::stats::Stats;
pub use self::timers::Timers;
