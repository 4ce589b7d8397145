//! `bounded_late`: a timer fires no later after its deadline than the scenario allows (PULL-4).
//!
//! Checked when a timer fires that is not deferrable, and when a coarse timer is enqueued.

use tickless_core::coarse::Tick;

use crate::model::time::Picos;

/// Describes the violation if a timer, described by `whose`, fires `late` by more than `late_max`.
pub(super) fn fires(
    late: Picos,
    late_max: Picos,
    whose: impl FnOnce() -> String,
) -> Option<String> {
    (late > late_max).then(|| format!("{} is {late} late", whose()))
}

/// Describes the violation if a coarse timer was enqueued in a slot that is too late: by more than 8/63 of the time for
/// which the timer was armed, and a tick (spec C-1.3). The clock of the wheel may be `behind` by the ticks whose due
/// timers may not have fired yet.
pub(super) fn filed(now: Tick, expiry: Tick, due: Tick, behind: u64) -> Option<String> {
    let ahead = expiry.0.saturating_sub(now.0) + behind;
    (due.0 > expiry.0.max(now.0) + ahead * 8 / 63 + 2)
        .then(|| format!("a timer for {expiry:?} is filed for {due:?} in {now:?}"))
}
