//! Exact timers for user space: `sleep(50µs).await` ends after 50 µs.
//!
//! The names, signatures and rules are those of `tokio::time`, which rounds deadlines up to whole milliseconds: a
//! program moves by changing a `use`. The price is wake-ups, one for each deadline, unless timers [may be
//! late](time::Precision). The library runs on Linux, Windows and wasm, and compiles for macOS and the BSDs.
//!
//! | | a future: wakes a task | a callback: calls a closure |
//! |---|---|---|
//! | **exact**: to the nanosecond | [`time`], the names of `tokio::time` | [`hrtimer`] |
//! | **coarse**: up to an eighth late, O(1) for any number of them | [`coarse`], the same names | [`wheel`], the same verbs |
//!
//! Take an exact timer for work that has to happen in time. Take a coarse timer for timeouts by the hundred thousand,
//! which are nearly always cancelled or pushed out. Futures work in any runtime or none; a callback needs no task.
//!
//! ```
//! use std::pin::pin;
//! use std::time::Duration;
//! use tickless::hrtimer::HrTimer;
//! use tickless::wheel::{Restart, WheelTimer};
//! use tickless::{coarse, time};
//!
//! # futures::executor::block_on(async {
//! time::sleep(Duration::from_micros(50)).await;
//! coarse::timeout(Duration::from_secs(30), async {}).await?;
//!
//! let beat = pin!(HrTimer::new(|_| Restart::No));
//! let _ = beat.as_ref().start(Duration::from_micros(50));
//! let idle = pin!(WheelTimer::new(|_| Restart::No));
//! let _ = idle.as_ref().start(Duration::from_secs(30));
//! # Ok::<(), coarse::error::Elapsed>(())
//! # });
//! ```
//!
//! The other modules:
//!
//! | for | use |
//! |---|---|
//! | a thread that needs the shortest path from a timer to its code, alone or on each CPU | [`worker`]: [`Worker`], [`Workers`], with the feature `worker` |
//! | tasks that share workers fairly, with weights, slices and checkpoints | [`executor`]: [`Executor`], [`task`], [`coop`], with the feature of that name |
//! | a thread with an event loop of its own | [`Driver`]: a file descriptor, a deadline, a turn |
//! | sleeps until a time of day, and their reaction to a set of the clock | [`realtime`] |
//! | clocks that count the time of a suspend; atomic time | [`boottime`], [`tai`] |
//! | hyper | [`hyper`], with the feature of that name |
//! | tokio: one wake-up for each timer in place of two | [`tokio`], with the feature of that name |
//! | the caches and nodes that CPUs share, and the isolated CPUs | [`topology`] |
//! | the state and the counters of the library | [`inspect`], [`dump`], [`stats()`], [`clock`] |
//! | a trace of the timers' events, for a checker and for Perfetto | [`tracepoints`], with the feature of that name |
//! | counters for dashboards, by thread | [`metrics`]: as values, as Prometheus text, for the crates `metrics` and `tracing` |
//!
//! # Which thread runs the timers
//!
//! Each thread has a queue of its own and starts its timers in this queue, without a lock that other threads use. A
//! [`Worker`] or [`Driver`] fires its own timers. The library's expiry thread fires the timers of all other threads,
//! for example of the workers of an async runtime. The library starts the expiry thread at the first use that needs it.
//! If the expiry thread cannot be started, the first use panics and leaves nothing behind; [`init`] returns an error
//! instead. A tokio runtime that is [attached](crate::tokio) fires the timers of its workers, and the expiry thread
//! fires them when the runtime is late.
//!
//! # What is promised
//!
//! - No timer is early, by [`std::time::Instant`]. A timer fires as soon after the deadline as the operating system
//!   wakes a thread.
//! - No timer is lost: not when an earlier timer is started while a thread goes to sleep, not when threads end, not
//!   when a callback panics. The child of a fork keeps the timers of the thread that forked.
//! - A stack of 32 KiB is enough for a thread that uses timers.
//! - Timers need no allocation.
//! - Callbacks and wakers run without locks, and may use any timer.
//!
//! # Limits
//!
//! - On systems other than Linux, functions that need descriptors, pinned threads or signals return `Unsupported`. The
//!   feature `portable` chooses the host of these systems on Linux.
//! - No function may be called in a signal handler.
//! - 65,536 threads have queues of their own at a time; further threads share the queue of the expiry thread.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(loom))))]
#![cfg_attr(
    windows,
    expect(clippy::result_large_err, reason = "paths are longer there")
)]
#![cfg_attr(
    not(all(
        feature = "executor",
        feature = "hyper",
        feature = "tokio",
        feature = "tracepoints"
    )),
    allow(
        rustdoc::broken_intra_doc_links,
        reason = "what a feature adds is named without it too"
    )
)]
#![cfg_attr(
    not(feature = "executor"),
    allow(
        dead_code,
        unused_imports,
        unused_mut,
        unused_variables,
        reason = "a part of the host serves workers and the executor alone"
    )
)]

// Before all others: of several paths to a type the compiler shows the first in its messages.
#[cfg(not(loom))]
pub mod time;

#[cfg(all(feature = "macros", not(loom)))]
mod attributes;
#[cfg(not(loom))]
mod callback;
#[cfg(not(loom))]
mod clocks;
#[cfg(not(loom))]
pub mod coarse;
#[cfg(all(feature = "executor", not(loom)))]
pub mod executor;
#[cfg(not(loom))]
mod host;
#[cfg(loom)]
mod host {
    //! The modules of the host that the loom models check.
    #![expect(dead_code, reason = "only the models use them")]
    pub(crate) mod call;
    pub(crate) mod doorbell;
    pub(crate) mod kick;
    pub(crate) mod park_state;
    pub(crate) mod resched;
    pub(crate) mod sleep_protocol;
    pub(crate) mod spin;
    pub(crate) mod suspicion;
}
#[cfg(loom)]
mod executor {
    //! The modules of the executor that the loom models check.
    #![expect(dead_code, reason = "only the models use them")]
    pub(crate) mod idle;
    pub(crate) mod io {
        //! The module of the executor's reactor that the loom models check.
        pub(crate) mod attendance;
    }
    pub(crate) mod listing;
}
#[cfg(all(feature = "hyper", not(loom)))]
pub mod hyper;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
pub mod metrics;
#[cfg(not(loom))]
mod shown;
#[cfg(not(loom))]
mod start_error;
#[cfg(not(loom))]
mod stats;
#[cfg(all(feature = "tokio", not(loom)))]
pub mod tokio;
#[cfg(all(feature = "worker", not(loom)))]
pub mod topology;
#[cfg(all(feature = "flight-recorder", not(loom)))]
pub mod tracepoints;
#[cfg(all(feature = "worker", not(loom)))]
pub mod worker;

/// Items for the tests and measurements of this repository. They may change with any version.
#[cfg(all(feature = "internals", not(loom)))]
pub mod internals {
    pub use crate::host::barrier::{System as Linux, barriers};
    pub use crate::host::clock::addresses as addresses_of_the_clock;

    /// Returns a time that is not earlier than the time of the kernel's clock; sleeps count from this time.
    #[inline]
    pub fn now_upper() -> tickless_core::time::Instant {
        crate::host::thread::now_upper()
    }

    /// Makes the clock follow the processor's counter alone, for emulators, in which the kernel's clock is too slow to
    /// read. Call it before the clock is first read.
    pub fn emulate_clock() {
        crate::host::clock::emulation::begin();
    }

    /// Clocks for tests, which may not set the clocks of the machine: all clocks but the monotonic clock differ from
    /// the kernel's clocks by a constant.
    pub mod clocks {
        use tickless_core::clock::Offsets;
        use tickless_core::time::Offset;

        use crate::host::registry::{tell_timers, timers};

        /// Offsets of the test clocks from the kernel's clocks, in nanoseconds.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Shifts {
            /// The offset of the time of day.
            pub realtime: i64,
            /// The offset of the clock that counts suspended time.
            pub boottime: i64,
            /// The offset of international atomic time.
            pub tai: i64,
        }

        /// Shifts the clocks, and notifies the library as the kernel does when a clock is set.
        pub fn set(shifts: Shifts) {
            set_unseen(shifts);
            timers().platform().wall.tell(tell_timers);
        }

        /// Shifts the clocks without a notification.
        pub fn set_unseen(shifts: Shifts) {
            timers().platform().wall.shift_by(Offsets {
                realtime: Offset::from_nanos(shifts.realtime),
                boottime: Offset::from_nanos(shifts.boottime),
                tai: Offset::from_nanos(shifts.tai),
            });
        }

        /// Simulates a kernel that does not notify the library when a clock is set, or ends the simulation.
        pub fn pretend_untold(is_untold: bool) {
            timers().platform().wall.pretend_untold(is_untold);
        }
    }

    /// Makes the descriptor of `driver` readable although nothing is due.
    #[cfg(feature = "worker")]
    pub fn poke(driver: &crate::Driver) {
        driver.poke();
    }
}

/// Functions that the attributes call. They may change with any version.
#[cfg(all(feature = "macros", not(loom)))]
#[doc(hidden)]
pub mod __private {
    pub use crate::attributes::{main, seeds, test};
}

/// True if each reading of the clock asks tokio first. For the tests of the C interface.
#[doc(hidden)]
pub const FOLLOWS_TOKIO: bool = cfg!(feature = "tokio-test-util");

#[cfg(all(feature = "macros", not(loom)))]
pub use tickless_macros::{main, test};

#[cfg(not(loom))]
pub use callback::{hrtimer, wheel};
#[cfg(not(loom))]
pub use clocks::{boottime, realtime, tai};
#[cfg(all(feature = "executor", not(loom)))]
pub use executor::{Executor, coop, task};
#[cfg(not(loom))]
pub use inspect::dump;
#[cfg(not(loom))]
pub use start_error::StartError;
#[cfg(not(loom))]
pub use stats::{Stats, clock, init, stats};
#[cfg(all(feature = "worker", not(loom)))]
pub use worker::{
    BuildError, Builder, Driver, EpollEvent, EpollEvents, IsolateError, IsolatedTimers,
    IsolationError, Parking, ScheduleError, Turn, Unparker, Worker, Workers,
};

/// The examples of the guide and of the README, so that they are compiled and run. Some examples of the guide need
/// hyper, streams and tokio.
#[cfg(doctest)]
mod written {
    #[cfg(all(
        feature = "executor",
        feature = "hyper",
        feature = "stream",
        feature = "tokio"
    ))]
    #[doc = include_str!("../../../docs/guide.md")]
    mod guide {}
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/metrics.md")]
    mod metrics {}
    #[cfg(feature = "macros")]
    #[doc = include_str!("../../../docs/testing-time.md")]
    mod testing_time {}
}
