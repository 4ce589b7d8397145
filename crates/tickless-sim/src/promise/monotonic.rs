//! `monotonic`: what a CPU reads of the clock does not go back.
//!
//! Looked at at each reading.

use super::Promise;
use crate::machine::host::Host;

impl Host {
    /// `cpu` read `last` before, and reads `now`.
    #[inline]
    pub(crate) fn goes_on(&self, cpu: u32, last: i64, now: i64) {
        if now < last {
            let what = format!("the clock went from {last} ns back to {now} ns");
            self.watch
                .borrow_mut()
                .broken(Promise::Monotonic, cpu, what);
        }
    }
}
