//! `lag_bounded`: no task of a fair queue is owed more than one request, or owes more than one (EEVDF, theorem 1).
//!
//! Two amounts are added to the bound. A task may leave with its lag, at most one request, and come back with it: the
//! lags of the other tasks change by the lag of a task that leaves. The longest step of a task counts too, because no
//! interrupt ends a step.
//!
//! Checked for the running task at each accounting, and for all waiting tasks every 10 ms.

use crate::model::time::Picos;

/// The largest delay of a decision if slices end precisely: the tolerance of the tick, the delay of its device, and the
/// work that a CPU does at once.
pub(crate) const SLOP: Picos = Picos::from_micros(50);

/// Describes the violation if the lag of a task is out of bounds. The task is owed `lag` nanoseconds of service; it
/// owes them if `lag` is negative. Its request is `request`, and the longest request of its competitors is `longest`. A
/// decision is late by at most `late`.
pub(crate) fn exceeded(lag: i64, request: Picos, longest: Picos, late: Picos) -> Option<String> {
    let nanos = |time: Picos| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let (least, most) = (
        -nanos(request.max(late) + late),
        nanos(longest.max(late) + late),
    );
    (lag < least || lag > most)
        .then(|| format!("a task is owed {lag} ns, which is not between {least} and {most}"))
}
