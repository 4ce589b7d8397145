//! High-resolution timers with callbacks: exact timers.
//!
//! The [base](crate::base::CpuBase) of a CPU has eight queues, one for each clock and stage. A queue is a red-black
//! tree with neighbour links, so that the three frequent questions (what is first, is this first, does this keep its
//! place) cost a load or two. The event device of a CPU is armed for the first timer of all its queues, and written as
//! seldom as possible.
//!
//! # Life of a timer
//!
//! [`HrTimer::start`] queues it on the CPU that executes the start. When its time has come the CPU's interrupt takes it
//! out and calls it, without any lock. The callback answers whether it goes on ([`Restart`]). [`HrTimer::cancel`] takes
//! it back.
//!
//! A timer has a *soft expiry*, from which on it may fire, and a *deadline*, for which the device is armed. The time
//! between them is its slack: when an interrupt comes for another reason, timers whose soft expiry has passed fire with
//! it (spec X-2.4).
//!
//! # Ground rules
//!
//! Those of the [base](crate::base), and:
//!
//! - `armed`, what the device is to fire for, is `FOREVER` from the beginning of an interrupt until the rearm.
//! - Only the CPU itself writes its device, or a thread that executes its entry points. A start on another CPU kicks
//!   that CPU instead, or goes elsewhere (spec LOC-13).
//!
//! # When the device is written (spec X-4)
//!
//! - A start writes if the timer became the CPU's first event and nothing earlier is armed. A restart or cancel of the
//!   first timer evaluates all queues and writes if the result differs. One start, one cancel, one interrupt: one write
//!   at most.
//! - A *lazy* timer that moves later, or goes, leaves the device as it is.
//! - An interrupt leaves the write to a *flush point* ([`flush_deferred`](crate::base::Timers::flush_deferred)),
//!   because what follows it often changes the first event again. The state of this is one enum:
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
//! A timer takes 80 bytes and its closure. Starting and cancelling take one lock, and O(1) while the timer is far, as
//! those of the hard stage on the monotonic clock can be; of a near one O(log n) in the number of timers of one clock
//! on one CPU that are near. Restarting in place, asking for the next event, and firing the first are O(1).

mod cancel;
mod clock_set;
mod device;
mod expire;
mod fast;
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
pub use self::sleeper::{NewSleeper, Sleeper};
pub use self::timer::{Expired, HrTimer, Setup, Stage, Start, TimerRef};
pub use crate::exact::far_wheel::is_far;
pub use crate::restart::Restart;
pub use crate::start_outcome::{ShutDown, StartError, StartOutcome};
