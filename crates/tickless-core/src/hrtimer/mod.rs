//! High-resolution timers: sorted, exact, with callbacks.
//!
//! Each CPU has a [base](CpuBase) with eight queues, one for each clock and stage. A queue is a red-black tree with
//! neighbour links, so that the three frequent questions (what is first, is this first, does this keep its place) cost
//! a load or two. The event device of a CPU is armed for the first timer of all its queues, and written as seldom as
//! possible.
//!
//! # Life of a timer
//!
//! [`Timers::start`] queues it on the CPU that executes the start. When its time has come the CPU's interrupt takes it
//! out and calls it, without any lock. The callback answers whether it goes on ([`Restart`]). [`Timers::cancel`] takes
//! it back.
//!
//! A timer has a *soft expiry*, from which on it may fire, and a *deadline*, for which the device is armed. What lies
//! between them is its slack: when an interrupt comes for another reason, timers whose soft expiry has passed fire with
//! it (spec X-2.4).
//!
//! # Ground rules
//!
//! - One lock for each base protects its queues, all timers that name one of them as their owner, its caches, and its
//!   device (spec LOC-1). A timer's lock is therefore found through its owner word, and looked at again once it is
//!   held.
//! - At most one base is locked at a time. The one exception is a CPU that goes offline, which the host serialises.
//! - Lock order: expiry lock of a base, then its base lock.
//! - A timer changes bases through a state in which it names no owner; a thread that looks for it waits (spec LOC-3).
//! - Callbacks run, and wakers are used, without any lock. While a callback runs its timer keeps its base (spec
//!   OBJ-15), and a second start queues it in addition.
//! - `armed`, what the device is to fire for, is `FOREVER` from the beginning of an interrupt until the rearm.
//!
//! # When the device is written (spec X-4)
//!
//! - A start writes if the timer became the CPU's first event and nothing earlier is armed. A restart or cancel of the
//!   first timer evaluates all queues and writes if the result differs. One start, one cancel, one interrupt: one write
//!   at most.
//! - A *lazy* timer that moves later, or goes, leaves the device as it is.
//! - An interrupt leaves the write to a *flush point* ([`Timers::flush_deferred`]), because what follows it often
//!   changes the first event again. The state of this is one enum:
//!
//! ```text
//!          interrupt begins            ends                  flush
//!   Clear ------------------> Running ------> OwedFresh ------------> Clear
//!                                                |  start, cancel,      ^
//!                                                v  clock set           |
//!                                            OwedStale -----------------+
//! ```
//!
//! # Cost
//!
//! A timer takes 80 bytes and its closure. Starting and cancelling take one lock and O(log n) in the number of timers
//! of one clock on one CPU; restarting in place, asking for the next event, and firing the first are O(1).

mod cancel;
mod clock_set;
mod device;
mod expire;
mod hotplug;
mod migrate;
#[cfg(all(test, loom))]
mod model;
mod query;
pub(crate) mod rearm;
mod sleeper;
mod start;
pub(crate) mod timer;

pub use self::expire::ExpiryReport;
pub use self::sleeper::Sleeper;
pub use self::start::AlreadyExpired;
pub use self::timer::{Expired, HrTimer, Setup, Stage, Start, TimerRef};
pub use crate::exact::far_wheel::is_far;
pub use crate::restart::Restart;
