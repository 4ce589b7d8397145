//! Exact timers for user space: `sleep(50µs).await` that means 50 µs.
//!
//! Most programs need one line, [`use tickless::time`](time): the names of `tokio::time`, exact to the nanosecond, in
//! any runtime or none. What else there is:
//!
//! | for | there is |
//! |---|---|
//! | async code, anywhere | [`time`] |
//! | timeouts by the hundred thousand, which may be an eighth late | [`coarse`] |
//! | a thread that wants the shortest way between a timer and its code | [`Worker`] |
//! | several of them, pinned, some left alone | [`Builder`] |
//! | a thread with an event loop of its own | [`Driver`]: a file descriptor, a deadline, a turn |
//! | callbacks instead of futures, other clocks than the monotonic one | [`hrtimer`], [`wheel`] |
//! | hyper | [`hyper`], with the feature of that name |
//! | which CPUs share what, and which are isolated | [`topology`] |
//! | looking inside | [`inspect`], [`dump`], [`stats`], [`clock`] |
//!
//! # Who runs the timers
//!
//! Every thread has its own queue and arms its timers there, without any lock that others use. A [`Worker`] or
//! [`Driver`] runs its own. For all other threads (the workers of an async runtime, for example) one background thread
//! does, started when it is first needed. If it cannot be started, the first use panics and leaves nothing behind;
//! [`init`] returns that as an error.
//!
//! # What is promised
//!
//! - Never early, by [`std::time::Instant`]; as soon after the deadline as the operating system wakes a thread.
//! - Never lost: not when an earlier timer is armed while a thread goes to sleep, not when threads end, not when a
//!   callback panics. The child of a fork keeps the timers of the thread that forked.
//! - A stack of 32 KiB is enough for a thread that uses timers.
//! - No allocation for timers; 112 bytes for a [`Sleep`](time::Sleep).
//! - Callbacks and wakers run without locks, and may use any timer.
//!
//! # Limits
//!
//! Linux. Not for signal handlers. 65,536 threads with queues of their own at a time; further ones share the driver's.
#![deny(rustdoc::broken_intra_doc_links)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "tickless needs Linux so far: futexes, timerfd and membarrier are what it stands on"
);

// Before all others: of several paths to a type the compiler shows the first in its messages.
#[cfg(not(loom))]
pub mod time;

#[cfg(not(loom))]
mod callback;
#[cfg(not(loom))]
pub mod coarse;
#[cfg(not(loom))]
mod host;
#[cfg(loom)]
mod host {
    //! In a model, the parts that have something to model.
    #![expect(dead_code, reason = "only the models use them")]
    pub(crate) mod kick;
    pub(crate) mod park_state;
    pub(crate) mod sleep_protocol;
    pub(crate) mod suspicion;
}
#[cfg(all(feature = "hyper", not(loom)))]
pub mod hyper;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
pub mod topology;
#[cfg(not(loom))]
pub mod worker;

/// For the tests and measurements of this repository: no part of what the crate promises.
#[cfg(all(feature = "internals", not(loom)))]
pub mod internals {
    pub use crate::host::barrier::{Linux, barriers};

    /// Makes the descriptor of `driver` readable, with nothing due.
    pub fn poke(driver: &crate::Driver) {
        driver.poke();
    }
}

#[cfg(not(loom))]
pub use callback::{hrtimer, wheel};
#[cfg(not(loom))]
pub use inspect::dump;
#[cfg(not(loom))]
pub use stats::{Stats, clock, init, stats};
#[cfg(not(loom))]
pub use worker::{
    BuildError, Driver, IsolateError, IsolatedTimers, IsolationError, MigratorPolicy, Parking,
    StartError, Turn, Unparker, Worker, Workers,
};

/// The examples of the guide and of the README, so that they are compiled and run. The guide speaks of hyper too.
#[cfg(doctest)]
mod written {
    #[cfg(feature = "hyper")]
    #[doc = include_str!("../../../docs/guide.md")]
    mod guide {}
    #[doc = include_str!("../../../README.md")]
    mod readme {}
}
