//! The system below the host: everything that differs between Linux and other systems.
//!
//! Two modules have the same items. `linux` calls the kernel; `portable` uses the standard library, and what one file
//! for each system adds to it (`portable/native`), and answers [`Unsupported`](std::io::ErrorKind::Unsupported) where
//! neither has anything to offer. The build script chooses: Linux has the first, unless the feature `portable` asks for
//! the second, and all other systems have the second.
//!
//! | room | holds | portable |
//! |---|---|---|
//! | [`barriers`] | the barrier that one thread has all others execute | refuses: locks are not biased |
//! | [`clocks`] | the monotonic clock and those that can be set | `std::time`; sets are looked for |
//! | [`descriptors`] | timer and event descriptors, epoll | refuses |
//! | [`signals`] | the timer that sends a thread a signal | refuses |
//! | [`threads`] | the end of a thread, its CPU, its names, a nap | a thread-local; no CPU and no pinning |
//! | [`timers`] | the timer that an event loop watches | that of the system, if it is known; else refuses |
//! | `events` | the event loop of JavaScript, where there is one | calls back in time |
//! | [`waiting`] | waiting until a word changes | a mutex, and a condition variable or the timer of the system |
//!
//! # Ground rules
//!
//! - This room knows no other room of the host.
//! - A word that [`waiting`] wakes for is changed before the call that wakes.

#[cfg(not(portable_host))]
mod linux;
#[cfg(portable_host)]
mod portable;

#[cfg(not(portable_host))]
pub(crate) use linux::{barriers, clocks, descriptors, signals, threads, timers, waiting};
#[cfg(event_host)]
pub(crate) use portable::events;
#[cfg(portable_host)]
pub(crate) use portable::{barriers, clocks, descriptors, signals, threads, timers, waiting};

/// True if the host stands on the standard library alone.
pub(crate) const IS_PORTABLE: bool = cfg!(portable_host);

/// A time as the system takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The wait has no end.
    Never,
    /// The wait ends when the system's monotonic clock shows so many nanoseconds: one or more.
    At(i64),
    /// The wait ends in so many nanoseconds: one or more.
    In(i64),
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The word changed, another thread woke this one, or for no reason: the caller looks again.
    Again,
    /// The time is over.
    Over,
    /// The system refuses to let threads wait.
    Refused,
}

/// Event of a descriptor that rings when a clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A clock was set.
    Set,
    /// The descriptor said nothing: the caller waits again.
    Nothing,
    /// The system cannot tell.
    #[cfg(not(portable_host))]
    Lost,
}
