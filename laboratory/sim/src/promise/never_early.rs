//! `never_early`: no timer fires before its deadline, by its own clock.
//!
//! Checked when a timer fires.

use tickless_core::coarse::Timeout;
use tickless_core::time::Clock;

use crate::model::time::Picos;

/// Describes the violation if a coarse timer fires when the clock shows `at`, and the tick for which the timer was
/// armed, of the length `tick`, is not over.
pub(super) fn coarse(timeout: &Timeout, tick: Picos, at: Picos) -> Option<String> {
    let over = tick * timeout.expiry.0.saturating_add(1);
    (timeout.now <= timeout.expiry || at < over)
        .then(|| format!("a coarse timer for {:?} fires at {at}", timeout.expiry))
}

/// Describes the violation if an exact timer fires when the clock shows `at`, and may fire only from `soft` on.
pub(super) fn exact(soft: Picos, at: Picos) -> Option<String> {
    (at < soft).then(|| format!("an exact timer for {soft} fires at {at}"))
}

/// Describes the violation if a timer on a clock that may be set fires before the clock shows `soft`. The clock truly
/// showed `shown` when the CPU read it: another CPU may set the clock back between the reading and the firing.
pub(super) fn wall(clock: Clock, soft: i64, shown: i64) -> Option<String> {
    (shown < soft).then(|| format!("a timer for {soft} of the {clock:?} clock fires at {shown}"))
}
