//! Timers and thread priorities of each system, which the standard library lacks.
//!
//! | file | system | a thread sleeps with | an event loop watches |
//! |---|---|---|---|
//! | `windows` | Windows | a high-resolution waitable timer | a waitable timer |
//! | `absent` | others, and Linux with the feature `portable` | condition variables | nothing |
//!
//! # Ground rules
//!
//! - Each system has the same items: `Native`, which is the [`Sleeper`](super::sleeper::Sleeper) of the system,
//!   `timers`, `nap`, and `set_realtime_priority`.
//! - Times are lengths in nanoseconds. If a timer rings early, the caller reads the clock and sets the timer again.

#[cfg(not(windows))]
mod absent;
#[cfg(windows)]
mod windows;

#[cfg(not(windows))]
pub(crate) use absent::{Native, nap, set_realtime_priority, timers};
#[cfg(windows)]
pub(crate) use windows::{Native, nap, set_realtime_priority, timers};
