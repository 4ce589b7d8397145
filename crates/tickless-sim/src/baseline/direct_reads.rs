//! The baseline without combined reads: each CPU reads the slow counter itself (spec C-6.1).
//!
//! The counter serves one read at a time. So a CPU that reads while others do waits for all of them, with interrupts
//! off and whatever it holds, and reading becomes slower for all the more CPUs read: ticks that come at the same moment
//! on all CPUs are enough. A part of a read may overlap with those of others, the way there and back.

use crate::model::costs::Charges;
use crate::model::current_cpu;
use crate::model::slow_counter::SlowCounter;

/// The CPU that executes reads the counter.
pub(crate) fn charge(charges: &Charges, counter: &mut SlowCounter) {
    let now = current_cpu::cursor();
    let from = counter.serves(current_cpu::cpu(), now, charges.slow_counter_serial);
    current_cpu::charge(from + charges.slow_counter - now);
}
