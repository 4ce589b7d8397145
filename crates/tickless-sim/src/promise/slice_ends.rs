//! `slice_ends`: a task of a fair queue is looked at again when its slice is over, if others wait (TICK-8).
//!
//! Looked at when a decision is made on a CPU whose slices end precisely. What interrupts took in between does not
//! count.

use crate::model::time::Picos;
use crate::promise::lag_bounded::SLOP;

/// What is wrong with a decision at `now`, when one was due by `due`, and interrupts, and steps of tasks that are not
/// interrupted, took `stolen`.
pub(crate) fn late(now: Picos, due: Picos, stolen: Picos) -> Option<String> {
    let latest = due + stolen + SLOP;
    (due != Picos::FOREVER && now > latest)
        .then(|| format!("a slice that was over at {due} is looked at at {now}"))
}
