//! Counters as events of the crate `tracing`.

use std::time::Duration;

use super::snapshot;

/// Emits an event of the level `INFO` for each thread that has timers, or had some, with the thread's counters as
/// fields; the target is `tickless::metrics`. Without a subscriber for such events the call does nothing.
///
/// Fields: `thread`, `role`, `name`, `pending`, `armed`, `rearmed`, `fired`, `cancelled` (exact and coarse together),
/// `pulled`, `wakeups`, `device_writes`, `late_p50` and `late_p99`. The last two are the lateness of the timers whose
/// [lateness is counted](super::count_lateness), in nanoseconds, at most twice the true lateness.
///
/// Besides, an [`Interval`](crate::time::Interval) that missed ticks emits an event of the level `DEBUG` with the
/// target `tickless::interval` when its late tick is taken.
pub fn trace() {
    if !tracing::enabled!(target: "tickless::metrics", tracing::Level::INFO) {
        return;
    }
    for thread in snapshot().threads {
        let (exact, coarse) = (thread.exact, thread.coarse);
        let late = |quantile| thread.lateness.quantile(quantile).map(nanos);
        tracing::info!(
            target: "tickless::metrics",
            thread = thread.number,
            role = thread.role.name(),
            name = thread.name,
            pending = exact.pending + coarse.pending,
            armed = exact.armed + coarse.armed,
            rearmed = exact.rearmed + coarse.rearmed,
            fired = exact.fired + coarse.fired,
            cancelled = exact.cancelled + coarse.cancelled,
            pulled = thread.pulled,
            wakeups = thread.wakeups,
            device_writes = thread.device_writes,
            late_p50 = late(0.5),
            late_p99 = late(0.99),
            "timers of a thread"
        );
    }
}

fn nanos(late: Duration) -> u64 {
    u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)
}
