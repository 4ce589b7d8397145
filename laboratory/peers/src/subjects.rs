//! The list of measured subjects.

/// Implements the part of a [`Subject`] that needs no environment, for a clock whose times all threads of the process
/// can compare.
macro_rules! on_a_clock {
    ($instant:ty) => {
        type Time = $instant;
        type Place = ();

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
use crate::operation::Operation;
use crate::subject::Subject;
use futures::Futures;

/// The family of a subject, which decides its name and colour in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A timer of Tickless.
    Tickless,
    /// A timer of tokio.
    Tokio,
    /// A timer of another library, or a simple queue.
    Peer,
    /// The lower limit of the cost, whose timers do not fire.
    Limit,
}

/// A function that measures operations among pending timers.
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
        entry::<Futures<tickless::OnWorker>>("Sleep on a Worker", Family::Tickless),
        entry::<Futures<tickless::OnThread>>("Sleep on a plain thread", Family::Tickless),
        entry::<Futures<tickless::Coarse>>("coarse::Sleep on a Worker", Family::Tickless),
        entry::<tickless::Wheel>(COARSE, Family::Tickless),
        entry::<tickless::Exact>(EXACT, Family::Tickless),
        entry::<Futures<tokio_time::Default>>(TOKIO, Family::Tokio),
        #[cfg(tokio_unstable)]
        entry::<Futures<tokio_time::Alternative>>(ALTERNATIVE, Family::Tokio),
        entry::<queues::Delayed>("tokio-util DelayQueue", Family::Peer),
        entry::<Futures<async_io_timer::AsyncIo>>("async-io Timer", Family::Peer),
        entry::<queues::Map>("BTreeMap<(Instant, id)>", Family::Peer),
        entry::<queues::Heap<false>>("binary heap, lazy deletion", Family::Peer),
        entry::<queues::Heap<true>>("binary heap, lazy extension", Family::Peer),
    ];
    #[cfg(has_any)]
    all.extend(foreign::all());
    all.push(entry::<limit::Lists>(
        "limit: a list for each bucket",
        Family::Limit,
    ));
    all.push(entry::<limit::Nothing>(
        "limit: the loop alone",
        Family::Limit,
    ));
    all
}

/// `struct tickless_timer` on a worker, called from C.
pub const EXACT_IN_C: &str = "tickless_timer (C)";
/// `struct tickless_timer` in an event loop, called from C.
pub const LOOP_IN_C: &str = "tickless_timer in a loop (C)";
/// `struct tickless_timeout` on a worker, called from C.
pub const COARSE_IN_C: &str = "tickless_timeout (C)";
/// Calls from C that only make the checks of each call and do nothing else: two calls for arm + cancel.
pub const CHECKS_IN_C: &str = "limit: checks of calls (C)";
/// The Rust timer inside `struct tickless_timer`.
pub const EXACT: &str = "HrTimer on a Worker";
/// The Rust timer inside `struct tickless_timeout`.
pub const COARSE: &str = "WheelTimer on a Worker";
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
