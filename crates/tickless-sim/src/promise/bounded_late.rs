//! `bounded_late`: a timer fires within the bound of the scenario after it is due (PULL-4).
//!
//! Looked at when a timer fires that is not deferrable, and when a coarse one is filed.

use tickless_core::coarse::Tick;

use crate::model::time::Picos;

/// What is wrong with a timer called `whose` that fires `late`, where it may be late by `late_max`.
pub(super) fn fires(
    late: Picos,
    late_max: Picos,
    whose: impl FnOnce() -> String,
) -> Option<String> {
    (late > late_max).then(|| format!("{} is {late} late", whose()))
}

/// What is wrong with the slot in which a coarse timer was filed: that is late by 8/63 of the time for which the timer
/// was armed at most, and by a tick (spec C-1.3). The clock of the wheel may be `behind` by the ticks in which what is
/// due may not have fired yet.
pub(super) fn filed(now: Tick, expiry: Tick, due: Tick, behind: u64) -> Option<String> {
    let ahead = expiry.0.saturating_sub(now.0) + behind;
    (due.0 > expiry.0.max(now.0) + ahead * 8 / 63 + 2)
        .then(|| format!("a timer for {expiry:?} is filed for {due:?} in {now:?}"))
}
