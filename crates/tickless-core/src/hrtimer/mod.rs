//! High-resolution timers with callbacks: exact timers.
//!
//! The [base](crate::base::CpuBase) of a CPU has eight queues, one for each clock and stage. A queue is a red-black
//! tree with neighbour links. So each of the three frequent queries takes one or two loads: the first timer of the
//! queue, whether a timer is the first, and whether a timer keeps its place. The event device of a CPU is armed for the
//! first timer of all its queues, and is written as seldom as possible.
//!
//! # Life of a timer
//!
//! [`HrTimer::start`] queues a timer on the CPU that executes the start. When the timer is due, the CPU's interrupt
//! removes the timer from its queue and executes its callback, without any lock. The result of the callback decides
//! whether the timer is queued again ([`Restart`]). [`HrTimer::cancel`] removes the timer from its queue.
//!
//! A timer has a *soft expiry*, from which on it may fire, and a *deadline*, for which the device is armed. The time
//! between the two is the slack of the timer. When an interrupt happens for another reason, it also fires all timers
//! whose soft expiry has passed (spec X-2.4).
//!
//! # Ground rules
//!
//! The ground rules of the [base](crate::base) hold here too. In addition:
//!
//! - `armed` is the time for which the device is programmed. It is `FOREVER` from the beginning of an interrupt until
//!   the rearm.
//! - Only the CPU itself, or a thread that executes the CPU's entry points, writes its device. A start that concerns
//!   another CPU kicks that CPU instead, or queues the timer on a different CPU (spec LOC-13).
//!
//! # When the device is written (spec X-4)
//!
//! - A start writes the device if the timer became the CPU's first event and no earlier time is armed. A restart or
//!   cancel of the first timer evaluates all queues and writes the device if the result differs. Each start, cancel or
//!   interrupt makes at most one write.
//! - A *lazy* timer that moves later or is cancelled does not cause a write.
//! - An interrupt leaves the write to a *flush point* ([`flush_deferred`](crate::base::Timers::flush_deferred)),
//!   because the code that runs after the interrupt often changes the first event again. One enum holds the state of
//!   the deferred write:
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
//! A timer takes 80 bytes and its closure. Starting and cancelling take one lock. They are O(1) for a timer in the far
//! wheel, which is open to timers of the hard stage on the monotonic clock. They are O(log n) for a near timer, with n
//! the number of near timers of one clock on one CPU. Restarting in place, reading the next event and firing the first
//! timer are O(1).

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
pub use self::sleeper::Sleeper;
pub use self::timer::{Expired, HrTimer, Setup, Stage, Start, TimerRef};
pub use crate::exact::far_wheel::is_far;
pub use crate::restart::Restart;
pub use crate::start_outcome::{ShutDown, StartError, StartOutcome};
