//! `lag_bounded`: no task of a fair queue is owed more than one request, or owes more (EEVDF, theorem 1).
//!
//! While tasks leave with what they are owed, at most one request, and come back with it, that is added: the others
//! have less or more by the lag of one that leaves. So is the longest step of a task, which no interrupt ends.
//!
//! Checked at each accounting of the task that runs, and every 10 ms of all that wait.

use crate::model::time::Picos;

/// The largest delay of a decision where slices end precisely: the tolerance of the tick, its device, and the work that
/// a CPU does at once.
pub(crate) const SLOP: Picos = Picos::from_micros(50);

/// Describes the violation if the lag of a task is out of bounds. It is owed `lag` nanoseconds of service, or owes them
/// if that is negative, asks for `request` at a time, and competes with others who ask for `longest` at most; decisions
/// come `late` at most.
pub(crate) fn exceeded(lag: i64, request: Picos, longest: Picos, late: Picos) -> Option<String> {
    let nanos = |time: Picos| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let (least, most) = (
        -nanos(request.max(late) + late),
        nanos(longest.max(late) + late),
    );
    (lag < least || lag > most)
        .then(|| format!("a task is owed {lag} ns, which is not between {least} and {most}"))
}
