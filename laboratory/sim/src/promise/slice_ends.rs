//! `slice_ends`: if other tasks wait, the scheduler checks a task of a fair queue when its slice is over (TICK-8).
//!
//! Checked when a decision is made on a CPU whose slices end precisely. The time of interrupts in between does not
//! count. A slice may be extended once, by 20 us, which is checked when the extension is granted.

use crate::model::time::Picos;
use crate::promise::lag_bounded::SLOP;

/// Describes the violation if a decision was due by `due` and comes at `now`. Interrupts, and steps of tasks that
/// cannot be interrupted, took `stolen`.
pub(crate) fn late(now: Picos, due: Picos, stolen: Picos) -> Option<String> {
    let latest = due + stolen + SLOP;
    (due != Picos::FOREVER && now > latest)
        .then(|| format!("a slice that was over at {due} is looked at at {now}"))
}

/// Describes the violation if a slice was extended more than once.
pub(crate) fn extended(extensions: u32) -> Option<String> {
    (extensions > 1).then(|| format!("a slice is extended for the time number {extensions}"))
}
