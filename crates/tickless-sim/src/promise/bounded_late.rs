//! `bounded_late`: a timer fires within the bound of the scenario after it is due.
//!
//! Looked at when a timer fires that is not deferrable, and when a coarse one is filed.

use tickless_core::coarse::Tick;

use super::Promise;
use crate::model::time::Picos;
use crate::promise::trace_checker::Watch;

impl Watch {
    /// What is called `whose` fires on `cpu`, so late.
    pub(crate) fn is_soon_enough(&mut self, cpu: u32, late: Picos, whose: impl FnOnce() -> String) {
        if late > self.late_max {
            let what = format!("{} is {late} late", whose());
            self.broken(Promise::BoundedLate, cpu, what);
        }
    }

    /// A slot is late by 8/63 of the time it was armed for at most, and by a tick (spec 1.3). The clock of the wheel
    /// may be behind by what is due and has not fired yet.
    pub(crate) fn is_filed_finely(&mut self, cpu: u32, now: Tick, expiry: Tick, due: Tick) {
        let behind = self.late_max.0.div_ceil(self.tick.0);
        let ahead = expiry.0.saturating_sub(now.0) + behind;
        if due.0 > expiry.0.max(now.0) + ahead * 8 / 63 + 2 {
            let what = format!("a timer for {expiry:?} is filed for {due:?} in {now:?}");
            self.broken(Promise::BoundedLate, cpu, what);
        }
    }
}
