//! `runtime_given`: a task with a reservation gets its runtime before its deadline in each period.
//!
//! Checked whenever a task with a reservation sleeps or is throttled, and every 10 ms for all of them. The promise
//! holds if the reservations of a CPU do not exceed the CPU, where each reservation counts as its runtime before its
//! deadline; a scenario with more is refused. Decisions come late: each reservation of the CPU may have overrun by that
//! delay when a task needs its own runtime, and one further task could not be interrupted.

use crate::model::time::Picos;

/// Describes the violation if a task could run for `waited` since it had runtime, and has neither spent the runtime nor
/// gone to sleep. The task was due in `deadline` and may be `late`.
pub(crate) fn late(waited: Picos, deadline: Picos, late: Picos) -> Option<String> {
    (waited > deadline + late)
        .then(|| format!("a task waits {waited} for its runtime, that was due in {deadline}"))
}

/// Describes the violation if a task is throttled although it had only `spent` of its `runtime`. The runtime is less by
/// the earlier overrun, which is `late` at most.
pub(crate) fn short(spent: Picos, runtime: Picos, late: Picos) -> Option<String> {
    (spent + late < runtime)
        .then(|| format!("a task with a runtime of {runtime} is throttled after {spent}"))
}

/// Describes the violation if a task is throttled at `now`, and should have had runtime again by the earlier time `by`.
pub(crate) fn withheld(now: Picos, by: Picos) -> Option<String> {
    (now > by).then(|| format!("a task that had runtime again by {by} is throttled at {now}"))
}
