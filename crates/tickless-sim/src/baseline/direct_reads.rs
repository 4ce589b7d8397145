//! Each CPU reads the slow counter for itself (spec C-6.1).
//!
//! The counter serves one read at a time. So a CPU that reads while others do waits for all of them, with interrupts
//! off and whatever it holds, and reading becomes slower for all the more CPUs read: ticks that come at the same moment
//! on all CPUs are enough. A part of a read overlaps with those of others, the way there and back.
//!
//! What the core is to do instead, one read for all CPUs that wait, is not there yet.

use std::cell::Cell;

use crate::model::costs::Charges;
use crate::model::current_cpu;
use crate::model::time::Picos;

/// The CPU that executes reads the counter, which serves others up to `busy_until`.
pub(crate) fn charge(charges: &Charges, busy_until: &Cell<Picos>) {
    let now = current_cpu::cursor();
    let served = now.max(busy_until.get()) + charges.slow_counter_serial;
    busy_until.set(served);
    let fixed = charges.slow_counter - charges.slow_counter_serial;
    current_cpu::charge(served + fixed - now);
}
