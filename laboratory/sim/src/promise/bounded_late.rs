//! `bounded_late`: a timer fires no later after its deadline than the scenario allows (PULL-4).
//!
//! Checked when a timer fires that is not deferrable, and when a coarse timer is enqueued.

use std::fmt::Display;

use tickless_core::coarse::Tick;

/// Describes the violation if a timer, described by `whose`, fires `late` by more than `late_max`.
#[inline]
pub(super) fn fires<T: PartialOrd + Display>(
    late: T,
    late_max: T,
    whose: impl FnOnce() -> String,
) -> Option<String> {
    (late > late_max).then(|| format!("{} is {late} late, and may be {late_max}", whose()))
}

/// Describes the violation if a coarse timer was enqueued in a slot that is too late: by more than 8/63 of the time for
/// which the timer was armed, and a tick (spec C-1.3). The clock of the wheel may be `behind` by the ticks whose due
/// timers may not have fired yet.
pub(super) fn filed(now: Tick, expiry: Tick, due: Tick, behind: u64) -> Option<String> {
    let ahead = expiry.0.saturating_sub(now.0).saturating_add(behind);
    let coarsest = expiry.0.max(now.0);
    let coarsest = coarsest.saturating_add(ahead.saturating_mul(8) / 63 + 2);
    (due.0 > coarsest).then(|| format!("a timer for {expiry:?} is enqueued for {due:?} in {now:?}"))
}
