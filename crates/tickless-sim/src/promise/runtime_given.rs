//! `runtime_given`: a task with a reservation gets its runtime before its deadline in each period.
//!
//! Checked whenever such a task sleeps or is throttled, and every 10 ms of all. It holds where the reservations of a
//! CPU are not more than it has, each counted as so much before its deadline; a scenario with more is refused.
//! Decisions come late: each reservation of the CPU may have run over by that when a task needs its own, and one task
//! was not interrupted.

use crate::model::time::Picos;

/// Describes the violation if a task that could run for `waited` since it had runtime has neither spent it nor sleeps,
/// when it was due in `deadline` and may be `late`.
pub(crate) fn late(waited: Picos, deadline: Picos, late: Picos) -> Option<String> {
    (waited > deadline + late)
        .then(|| format!("a task waits {waited} for its runtime, that was due in {deadline}"))
}

/// Describes the violation if a task is throttled when it had only `spent` of a whole `runtime`, less the time that it
/// ran over before, which is `late` at most.
pub(crate) fn short(spent: Picos, runtime: Picos, late: Picos) -> Option<String> {
    (spent + late < runtime)
        .then(|| format!("a task with a runtime of {runtime} is throttled after {spent}"))
}

/// Describes the violation if a task is throttled at `now`, and should have had runtime again `by` an earlier time.
pub(crate) fn withheld(now: Picos, by: Picos) -> Option<String> {
    (now > by).then(|| format!("a task that had runtime again by {by} is throttled at {now}"))
}
