//! Timers and priorities of each system, which the standard library does not have: one file for each.
//!
//! | file | system | a thread sleeps with | an event loop watches |
//! |---|---|---|---|
//! | `windows` | Windows | a high-resolution waitable timer | a waitable timer |
//! | `apple` | macOS and its kin | `EVFILT_TIMER` on the clock of the processor, `NOTE_CRITICAL` | a kqueue |
//! | `freebsd`, `netbsd` | these | `EVFILT_TIMER` in nanoseconds | a kqueue |
//! | `absent` | others, and Linux with the feature `portable` | condition variables | nothing |
//!
//! `kqueue` has the logic of the three in the middle over the calls of the system, `kevent` those calls, and `posix`
//! the priorities of threads.
//!
//! # Ground rules
//!
//! - Each file has the same items: `Native`, which is the [`Sleeper`](super::sleeper::Sleeper) of the system,
//!   `timers`, `nap`, and `set_realtime_priority`.
//! - Times are lengths in nanoseconds. Whatever rings early is looked at by the caller, who asks again.

#[cfg(not(any(
    windows,
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd"
)))]
mod absent;
#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
mod kevent;
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    all(test, unix)
))]
mod kqueue;
#[cfg(target_os = "netbsd")]
mod netbsd;
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
pub(crate) use apple::{Native, nap, set_realtime_priority, timers};
#[cfg(target_os = "freebsd")]
pub(crate) use freebsd::{Native, nap, set_realtime_priority, timers};
#[cfg(all(test, unix))]
pub(crate) use kqueue::FakeQueue;
#[cfg(target_os = "netbsd")]
pub(crate) use netbsd::{Native, nap, set_realtime_priority, timers};
#[cfg(windows)]
pub(crate) use windows::{Native, nap, set_realtime_priority, timers};
