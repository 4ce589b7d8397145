//! The list of measured subjects.

/// Implements the part of a [`Subject`] that needs no environment, for a clock whose times all threads of the process
/// can compare.
macro_rules! on_a_clock {
    ($instant:ty) => {
        type Time = $instant;
        type Environment = ();

        fn within<R>(body: impl FnOnce(&()) -> R) -> R {
            body(&())
        }

        #[inline]
        fn now(&mut self) -> $instant {
            <$instant>::now()
        }

        #[inline]
        fn later(time: $instant, nanos: u64) -> $instant {
            time + ::std::time::Duration::from_nanos(nanos)
        }
    };
}

mod async_io_timer;
#[cfg(has_any)]
mod foreign;
mod futures;
mod limit;
mod queues;
mod tickless;
mod tokio_time;

use crate::measure::{self, Turn};
use crate::operation::{Family, Operation};
use crate::subject::Subject;
use futures::Futures;

type Pending = fn(Turn<'_>) -> Result<Vec<(Operation, f64)>, String>;
/// A function that measures operations on a given number of threads.
type Threads = fn(Turn<'_>, u32) -> Result<Vec<(Operation, f64)>, String>;

/// A subject, by the functions that measure it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) pending: Pending,
    pub(crate) expire: Option<fn(Turn<'_>) -> Result<f64, String>>,
    pub(crate) unpolled: Option<fn(Turn<'_>) -> f64>,
    pub(crate) threads: Threads,
    pub(crate) proof: Option<fn() -> Result<(), String>>,
}

const fn entry<S: Subject>(name: &'static str, family: Family) -> Entry {
    Entry {
        name,
        family,
        pending: measure::pending::<S>,
        expire: if S::FIRES {
            Some(measure::expire::<S>)
        } else {
            None
        },
        unpolled: if S::IS_FUTURE {
            Some(measure::unpolled::<S>)
        } else {
            None
        },
        threads: measure::threads::<S>,
        proof: if S::FIRES {
            Some(measure::proof::<S>)
        } else {
            None
        },
    }
}

/// Returns all subjects that this program can measure.
pub(crate) fn all() -> Vec<Entry> {
    let mut all = vec![
        entry::<Futures<tickless::OnWorker>>(SLEEP, Family::Tickless),
        entry::<Futures<tickless::OnThread>>("Sleep on a plain thread", Family::Tickless),
        entry::<Futures<tickless::Coarse>>(COARSE_SLEEP, Family::Tickless),
        entry::<tickless::Wheel>(COARSE, Family::Tickless),
        entry::<tickless::Exact>(EXACT, Family::Tickless),
        entry::<queues::OnWorker>(DELAY_QUEUE, Family::Tickless),
        entry::<Futures<tokio_time::Default>>(TOKIO, Family::Tokio),
        #[cfg(tokio_unstable)]
        entry::<Futures<tokio_time::Alternative>>(ALTERNATIVE, Family::Tokio),
        entry::<queues::Delayed>(TOKIO_UTIL, Family::Peer),
        entry::<Futures<async_io_timer::AsyncIo>>("async-io Timer", Family::Peer),
        entry::<queues::Map>("BTreeMap<(Instant, id)>", Family::Peer),
        entry::<queues::Heap<false>>("binary heap, lazy deletion", Family::Peer),
        entry::<queues::Heap<true>>("binary heap, lazy extension", Family::Peer),
    ];
    #[cfg(has_any)]
    all.extend(foreign::all());
    all.extend([
        entry::<limit::Lists>(LISTS, Family::Limit),
        entry::<limit::Line>(LINE, Family::Limit),
        entry::<limit::Nothing>("limit: the loop alone", Family::Limit),
    ]);
    all
}

/// `struct tickless_timer` on a worker, called from C.
pub(crate) const EXACT_IN_C: &str = "tickless_timer (C)";
/// `struct tickless_timer` in an event loop, called from C.
#[cfg(has_tickless)]
pub(crate) const LOOP_IN_C: &str = "tickless_timer in a loop (C)";
/// `struct tickless_timeout` on a worker, called from C.
pub(crate) const COARSE_IN_C: &str = "tickless_timeout (C)";
pub(crate) const SLEEP: &str = "Sleep on a Worker";
pub(crate) const COARSE_SLEEP: &str = "coarse::Sleep on a Worker";
/// `tickless::time::DelayQueue` on a worker.
pub(crate) const DELAY_QUEUE: &str = "DelayQueue on a Worker";
pub(crate) const TOKIO_UTIL: &str = "tokio-util DelayQueue";
/// A wheel without clock, lock, states and cascading levels.
pub(crate) const LISTS: &str = "limit: a list for each bucket";
/// A sorted queue in which a timer keeps its place.
pub(crate) const LINE: &str = "limit: read both neighbours, write the node";
/// Calls from C that only make the checks of each call and do nothing else: two calls for arm + cancel.
#[cfg(has_tickless)]
pub(crate) const CHECKS_IN_C: &str = "limit: checks of calls (C)";
/// The Rust timer inside `struct tickless_timer`.
pub(crate) const EXACT: &str = "HrTimer on a Worker";
/// The Rust timer inside `struct tickless_timeout`.
pub(crate) const COARSE: &str = "WheelTimer on a Worker";
/// The default timer of tokio, in a multi-thread runtime.
pub const TOKIO: &str = "tokio, multi-thread";
const ALTERNATIVE: &str = "tokio, alternative timer";

/// A peer that this program cannot measure.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Missing {
    /// Name of the subject.
    pub subject: &'static str,
    /// The reason, and how to install the peer if that is possible.
    pub why: String,
}

/// Returns the peers that are missing, each with a way to install it.
#[must_use]
pub fn missing() -> Vec<Missing> {
    let mut missing = Vec::new();
    if cfg!(not(tokio_unstable)) {
        missing.push(Missing {
            subject: ALTERNATIVE,
            why: "build with RUSTFLAGS=\"--cfg tokio_unstable\"".to_owned(),
        });
    }
    for (subject, package, is_there) in [
        ("libevent", "libevent-dev", cfg!(has_libevent)),
        (
            "libevent, common timeouts",
            "libevent-dev",
            cfg!(has_libevent),
        ),
        ("libev", "libev-dev", cfg!(has_libev)),
        ("libuv", "libuv1-dev", cfg!(has_libuv)),
        ("Boost.Asio", "libboost-dev", cfg!(has_asio)),
        ("DPDK rte_timer", "libdpdk-dev", cfg!(has_dpdk)),
    ] {
        if !is_there {
            missing.push(Missing {
                subject,
                why: format!("apt-get install {package}, and build with --features c-peers"),
            });
        }
    }
    missing
}
