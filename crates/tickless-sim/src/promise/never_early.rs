//! `never_early`: no timer fires before its time, by the clock that it is on.
//!
//! Looked at when a timer fires.

use tickless_core::coarse::Timeout;
use tickless_core::time::Clock;

use super::Promise;
use crate::model::time::Picos;
use crate::promise::trace_checker::Watch;

impl Watch {
    /// A coarse timer fires on `cpu`, where the clock shows `at`: the tick for which it was armed is over.
    pub(crate) fn is_coarse_due(&mut self, cpu: u32, timeout: &Timeout, at: Picos) {
        let over = self.tick * timeout.expiry.0.saturating_add(1);
        if timeout.now <= timeout.expiry || at < over {
            let what = format!("a coarse timer for {:?} fires at {at}", timeout.expiry);
            self.broken(Promise::NeverEarly, cpu, what);
        }
    }

    /// An exact timer fires on `cpu` that may do so from `soft` on, where the clock shows `at`.
    pub(crate) fn is_exact_due(&mut self, cpu: u32, soft: Picos, at: Picos) {
        if at < soft {
            let what = format!("an exact timer for {soft} fires at {at}");
            self.broken(Promise::NeverEarly, cpu, what);
        }
    }

    /// One of a clock that may be set fires, which may do so when that shows `soft`, and truly showed `shown` when the
    /// CPU read it: somebody may set it back between the reading and the firing.
    pub(crate) fn is_wall_due(&mut self, cpu: u32, (clock, soft): (Clock, i64), shown: i64) {
        if shown < soft {
            let what = format!("a timer for {soft} of the {clock:?} clock fires at {shown}");
            self.broken(Promise::NeverEarly, cpu, what);
        }
    }
}
