//! Counters for dashboards: each thread's timers, wake-ups and lateness.
//!
//! [`snapshot`] returns the counters as plain values, [`write_prometheus`] writes them as text for a scrape.
//!
//! ```
//! use std::time::Duration;
//! use tickless::metrics;
//!
//! # futures::executor::block_on(async {
//! metrics::count_lateness(true);
//! tickless::time::sleep(Duration::from_millis(1)).await;
//!
//! let fired = metrics::snapshot().threads.iter().map(|thread| thread.exact.fired).sum::<u64>();
//! assert!(fired >= 1);
//!
//! let mut text = String::new();
//! metrics::write_prometheus(&mut text)?;
//! assert!(text.contains("tickless_timers_fired_total{thread="));
//! # Ok::<(), std::fmt::Error>(())
//! # });
//! ```
//!
//! # Cost
//!
//! The counters of timers are always on; each thread counts its own timers. A snapshot locks each thread's queue for a
//! moment, which interrupts an [isolated worker](crate::Worker::set_isolated) once. Lateness is counted from
//! [`count_lateness`] on, and costs nothing before.
//!
//! # Limits
//!
//! Threads continue while a snapshot is taken: the counters of one thread are of one moment, the counters of two
//! threads are not. A thread that starts may take the number of a thread that ended, and continues the counters of that
//! thread: counters never decrease.

mod families;
mod lateness;
mod prometheus;

pub use self::lateness::Lateness;
pub use self::prometheus::write_prometheus;
use crate::host::registry::{bases, timers};
use crate::host::thread::ThreadBase;
use crate::inspect::Role;
use crate::stats::{Stats, stats};

/// Counters of the process and of its threads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// Counters of the process, all threads together.
    pub process: Stats,
    /// The threads that have timers, or had some; number 0 is the expiry thread.
    pub threads: Vec<ThreadMetrics>,
}

/// Counters of a thread since the process began. They include the counters of earlier threads with the same number,
/// which have ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadMetrics {
    /// The number of the thread, as in [`inspect`](crate::inspect).
    pub number: u32,
    /// The thread that fires the timers of this thread.
    pub role: Role,
    /// The system's number of the thread.
    pub id: Option<u32>,
    /// The name of the thread, as far as the system keeps it; `None` if the name cannot be read or the thread has
    /// ended.
    pub name: Option<String>,
    /// Counters of exact timers.
    pub exact: Counts,
    /// Counters of coarse timers.
    pub coarse: Counts,
    /// Exact timers that another thread's queue passed to this thread.
    pub arrived: u64,
    /// Timers of this thread that another thread fired, exact and coarse. For a thread without a worker or driver these
    /// are all of its timers; for a worker, the timers that were due while the worker was too busy or too deeply
    /// asleep.
    pub pulled: u64,
    /// Sleeps of a worker or of the expiry thread that ended, for a timer or for another reason. The library does not
    /// see the sleeps of other threads; their value is 0.
    pub wakeups: u64,
    /// Checks of the exact timers because the first of them was due.
    pub interrupts: u64,
    /// Interrupts that found nothing due.
    pub spurious: u64,
    /// Deadlines that the thread passed to the operating system or to the expiry thread.
    pub device_writes: u64,
    /// The lateness of exact timers that fired after [`count_lateness`] was enabled.
    pub lateness: Lateness,
}

/// Counters of the timers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Timers that are queued at present.
    pub pending: u64,
    /// Starts and restarts.
    pub armed: u64,
    /// Starts of timers that were pending; [`armed`](Self::armed) includes them.
    ///
    /// The value is computed: it is the number of starts minus the timers that fired, were cancelled or are pending. A
    /// timer that moves to another thread's queue counts as a restart on the thread that it leaves.
    pub rearmed: u64,
    /// Restarts that left the timer at its place in the queue; these are the cheapest restarts.
    pub rearmed_in_place: u64,
    /// Timers that fired.
    pub fired: u64,
    /// Timers that were cancelled, or dropped, while they were pending.
    pub cancelled: u64,
}

impl Counts {
    const fn with_rearmed(self) -> Self {
        let accounted = self.fired + self.cancelled + self.pending;
        Self {
            rearmed: self.armed.saturating_sub(accounted),
            ..self
        }
    }
}

/// Enables or disables the histograms of lateness for all exact timers of the process. They are disabled at first.
///
/// Lateness is the time from the deadline to the beginning of the turn that fires the timer. The deadline counts
/// without [slack](crate::time::Sleep::slack), so a timer that uses its slack counts as late. The time that wakers and
/// the runtime's queue take after the beginning of the turn is not included.
///
/// # Cost
///
/// While the histograms are enabled, timers fire one by one instead of in runs, which takes some 20 instructions more
/// for each timer. While they are disabled, a turn checks the switch once.
pub fn count_lateness(enabled: bool) {
    timers().platform().set_counts_lateness(enabled);
}

/// Returns the counters of the process and of each thread that has timers, or had some.
#[must_use]
pub fn snapshot() -> Metrics {
    Metrics {
        process: stats(),
        threads: bases().filter_map(thread).collect(),
    }
}

fn thread(base: &'static ThreadBase) -> Option<ThreadMetrics> {
    let report = timers().report(base.cpu())?;
    let (stats, local) = (report.stats, base.local());
    let exact = Counts {
        pending: (report.sorted + report.far) as u64,
        armed: stats.starts,
        rearmed_in_place: stats.kept(),
        fired: stats.expired,
        cancelled: stats.cancelled,
        ..Counts::default()
    };
    let on_wheels = report.wheels.iter().map(|wheel| wheel.pending as u64);
    let coarse = Counts {
        pending: on_wheels.sum(),
        armed: stats.coarse_arms,
        rearmed_in_place: stats.coarse_in_slot,
        fired: stats.coarse_expired,
        cancelled: stats.coarse_cancelled,
        ..Counts::default()
    };
    let role = Role::of(base);
    if role == Role::Ended && exact.armed == 0 && coarse.armed == 0 {
        return None;
    }
    let id = local.thread_id();
    Some(ThreadMetrics {
        number: base.cpu().0,
        role,
        id,
        name: id.and_then(crate::inspect::thread_name),
        exact: exact.with_rearmed(),
        coarse: coarse.with_rearmed(),
        arrived: stats.arrived,
        pulled: local.remote.pulled(),
        wakeups: local.parker.wakeups(),
        interrupts: stats.interrupts,
        spurious: stats.spurious,
        device_writes: stats.device_writes,
        lateness: Lateness::of(local.lateness.counts()),
    })
}

#[cfg(test)]
mod tests;
