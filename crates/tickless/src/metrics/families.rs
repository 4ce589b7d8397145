//! The names of the published counters.

use super::{Counts, ThreadMetrics};
use crate::stats::Stats;

/// A name, and the values that are published under this name.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) help: &'static str,
    pub(super) source: Source,
}

/// The type of a family in Prometheus, which says how its values change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// Values never go back.
    Counter,
    Gauge,
}

/// The function that returns the values of a family.
pub(super) enum Source {
    /// Returns one value for the process.
    Process(fn(&Stats) -> u64),
    /// Returns one value for each thread.
    Thread(fn(&ThreadMetrics) -> u64),
    /// Returns one value for each thread and [kind of timer](QUEUES).
    Queue(fn(&Counts) -> u64),
}

/// Returns a thread's counters of one kind of timer.
type Queue = fn(&ThreadMetrics) -> &Counts;

/// The kinds of timers, each with the name that the labels use.
pub(super) const QUEUES: [(&str, Queue); 2] = [
    ("exact", |thread| &thread.exact),
    ("coarse", |thread| &thread.coarse),
];

/// The name of the histogram of each thread.
pub(super) const LATENESS: &str = "tickless_timer_lateness_seconds";

/// The help text of [`LATENESS`].
pub(super) const LATENESS_HELP: &str =
    "Time from the deadline of an exact timer to the beginning of the turn that fired it.";

const fn counter(name: &'static str, help: &'static str, source: Source) -> Family {
    Family {
        name,
        kind: MetricKind::Counter,
        help,
        source,
    }
}

/// All families but the histogram.
pub(super) const FAMILIES: [Family; 16] = [
    Family {
        name: "tickless_timers_pending",
        kind: MetricKind::Gauge,
        help: "Timers that are queued.",
        source: Source::Queue(|counts| counts.pending),
    },
    counter(
        "tickless_timers_armed_total",
        "Starts and restarts of timers.",
        Source::Queue(|counts| counts.armed),
    ),
    counter(
        "tickless_timers_rearmed_in_place_total",
        "Restarts that left the timer where it was queued.",
        Source::Queue(|counts| counts.rearmed_in_place),
    ),
    counter(
        "tickless_timers_fired_total",
        "Timers that fired.",
        Source::Queue(|counts| counts.fired),
    ),
    counter(
        "tickless_timers_cancelled_total",
        "Timers that were cancelled or dropped while they were queued.",
        Source::Queue(|counts| counts.cancelled),
    ),
    counter(
        "tickless_timers_arrived_total",
        "Exact timers that came from the queue of another thread.",
        Source::Thread(|thread| thread.arrived),
    ),
    counter(
        "tickless_timers_pulled_total",
        "Timers of the thread that another thread fired.",
        Source::Thread(|thread| thread.pulled),
    ),
    counter(
        "tickless_wakeups_total",
        "Sleeps of a worker or of the expiry thread that ended.",
        Source::Thread(|thread| thread.wakeups),
    ),
    counter(
        "tickless_interrupts_total",
        "Looks at exact timers because the first was due.",
        Source::Thread(|thread| thread.interrupts),
    ),
    counter(
        "tickless_spurious_interrupts_total",
        "Interrupts that found nothing due.",
        Source::Thread(|thread| thread.spurious),
    ),
    counter(
        "tickless_device_writes_total",
        "Deadlines handed to the operating system or to the expiry thread.",
        Source::Thread(|thread| thread.device_writes),
    ),
    counter(
        "tickless_reactor_sets_total",
        "Times that the timer descriptor of an attached runtime was set.",
        Source::Process(|stats| stats.reactor_sets),
    ),
    counter(
        "tickless_reactor_expired_total",
        "Timers that the reactors of attached runtimes fired.",
        Source::Process(|stats| stats.reactor_expired),
    ),
    counter(
        "tickless_missed_ticks_total",
        "Ticks of intervals that are never taken, because an earlier tick was taken late.",
        Source::Process(|stats| stats.missed_ticks),
    ),
    counter(
        "tickless_clock_sets_total",
        "Sets of a clock that were noticed.",
        Source::Process(|stats| stats.clock_sets),
    ),
    counter(
        "tickless_panics_total",
        "Callbacks and wakers that panicked.",
        Source::Process(|stats| stats.panics),
    ),
];

impl Family {
    /// Shows each value of the family with its labels to `visit`: the number of a thread, and the kind of timers.
    ///
    /// # Errors
    ///
    /// The first error of `visit`, which ends the call.
    pub(super) fn for_each<E>(
        &self,
        metrics: &super::Metrics,
        mut visit: impl FnMut(Option<u32>, Option<&'static str>, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.source {
            Source::Process(value) => visit(None, None, value(&metrics.process)),
            Source::Thread(value) => {
                let mut threads = metrics.threads.iter();
                threads.try_for_each(|thread| visit(Some(thread.number), None, value(thread)))
            }
            Source::Queue(value) => metrics.threads.iter().try_for_each(|thread| {
                QUEUES.iter().try_for_each(|(name, queue)| {
                    visit(Some(thread.number), Some(name), value(queue(thread)))
                })
            }),
        }
    }
}
