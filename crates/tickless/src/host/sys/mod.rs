//! The system below the host: everything that differs between Linux and other systems.
//!
//! Two modules have the same items. `linux` calls the kernel. `portable` uses the standard library and one file for
//! each system (`portable/native`), and returns [`Unsupported`](std::io::ErrorKind::Unsupported) for services that
//! neither of the two has. The build script chooses the module: `linux` for Linux without the feature `portable`, else
//! `portable`.
//!
//! | module | holds | portable |
//! |---|---|---|
//! | [`barriers`] | the barrier that one thread makes all others execute | refuses: locks are not biased |
//! | [`clocks`] | the monotonic clock and the clocks that can be set | `std::time`; sets are found by polling |
//! | [`descriptors`] | timer and event descriptors, epoll | refuses |
//! | [`threads`] | the end of a thread, its CPU, its names, a nap | a thread-local; no CPU and no pinning |
//! | [`timers`] | the timer that an event loop watches | the system's timer, if it is supported; else refuses |
//! | `events` | the event loop of JavaScript, if there is one | calls back in time |
//! | [`waiting`] | waiting until a word changes | a mutex, and a condition variable or the timer of the system |
//!
//! # Ground rules
//!
//! - This module uses no other module of the host.
//! - A thread changes a word before it calls [`waiting`] to wake the threads that wait for that word.

#[cfg(not(portable_host))]
mod linux;
#[cfg(portable_host)]
mod portable;

#[cfg(not(portable_host))]
pub(crate) use linux::{barriers, clocks, descriptors, threads, timers, waiting};
#[cfg(event_host)]
pub(crate) use portable::events;
#[cfg(portable_host)]
pub(crate) use portable::{barriers, clocks, descriptors, threads, timers, waiting};

/// True if the host uses only the standard library.
pub(crate) const IS_PORTABLE: bool = cfg!(portable_host);

/// The end of a wait, in the form that the system accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The wait has no end.
    Never,
    /// The wait ends when the system's monotonic clock shows the contained number of nanoseconds: one or more.
    At(i64),
    /// The wait ends after the contained number of nanoseconds: one or more.
    In(i64),
}

/// The clocks on which a timer wakes a suspended machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlarmClock {
    Boottime,
    Realtime,
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The word changed, another thread woke this thread, or the wait ended for no reason: the caller checks the word
    /// again.
    Again,
    /// The time is over.
    Over,
    /// The system refuses to let threads wait.
    Refused,
}

/// The event of a descriptor that becomes readable when a clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A clock was set.
    Set,
    /// No event arrived: the caller waits again.
    Nothing,
    /// The system cannot report sets.
    #[cfg(not(portable_host))]
    Lost,
}
