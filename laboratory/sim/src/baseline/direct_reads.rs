//! The baseline without combined reads: each CPU reads the slow counter itself (spec C-6.1).
//!
//! The counter serves one read at a time. So a CPU that reads while other CPUs read waits for all of them, with
//! interrupts off and with all locks that it holds. The more CPUs read, the slower each read becomes: ticks that come
//! at the same time on all CPUs are enough. A part of a read, the transfer to the counter and back, may overlap with
//! the reads of other CPUs.

use crate::model::costs::Charges;
use crate::model::current_cpu;
use crate::model::slow_counter::SlowCounter;

pub(crate) fn charge(charges: &Charges, counter: &mut SlowCounter) {
    let now = current_cpu::cursor();
    let from = counter.serves(current_cpu::cpu(), now, charges.slow_counter_serial);
    current_cpu::charge(from + charges.slow_counter - now);
}
