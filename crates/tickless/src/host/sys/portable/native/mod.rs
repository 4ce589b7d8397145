//! Timers and thread priorities of each system, which the standard library lacks.
//!
//! | file | system | a thread sleeps with | an event loop watches |
//! |---|---|---|---|
//! | `windows` | Windows | a high-resolution waitable timer | a waitable timer |
//! | `apple` | macOS and related systems | `EVFILT_TIMER` on the clock of the processor, `NOTE_CRITICAL` | a kqueue |
//! | `bsd` | FreeBSD, NetBSD | `EVFILT_TIMER` in nanoseconds | a kqueue |
//! | `absent` | others, and Linux with the feature `portable` | condition variables | nothing |
//!
//! `kqueue` has the common logic of `apple` and `bsd`, `kevent` has the calls of the system that this logic uses, and
//! `posix` has the priorities of threads.
//!
//! # Ground rules
//!
//! - Each system has the same items: `Native`, which is the [`Sleeper`](super::sleeper::Sleeper) of the system,
//!   `timers`, `nap`, and `set_realtime_priority`.
//! - Times are lengths in nanoseconds. If a timer rings early, the caller reads the clock and sets the timer again.

#[cfg(not(any(
    windows,
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd"
)))]
mod absent;
#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(any(target_os = "freebsd", target_os = "netbsd"))]
mod bsd;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
mod kevent;
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    all(test, unix)
))]
mod kqueue;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
mod posix;
#[cfg(windows)]
mod windows;

#[cfg(not(any(
    windows,
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd"
)))]
pub(crate) use absent::{Native, nap, set_realtime_priority, timers};
#[cfg(target_vendor = "apple")]
pub(crate) use apple::nap;
#[cfg(target_vendor = "apple")]
use apple::set_length;
#[cfg(any(target_os = "freebsd", target_os = "netbsd"))]
pub(crate) use bsd::nap;
#[cfg(any(target_os = "freebsd", target_os = "netbsd"))]
use bsd::set_length;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
pub(crate) use kevent::{Native, timers};
#[cfg(all(test, unix))]
pub(crate) use kqueue::FakeQueue;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
pub(crate) use posix::set_realtime_priority;
#[cfg(windows)]
pub(crate) use windows::{Native, nap, set_realtime_priority, timers};
