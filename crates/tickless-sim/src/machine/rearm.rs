//! Where a world pays what an interrupt owes the device: its flush points (spec 4.5).
//!
//! | point | where |
//! |---|---|
//! | S1 | an interrupt returns to the task that it interrupted |
//! | S3 | it returns to idle |
//! | S4 | before a soft stage |
//! | S5 | a task was picked, and its slice began |
//!
//! Interrupts of a world do not nest, nobody runs a handler by hand, and no slice is extended, so that the others do
//! not occur. System calls (S2) owe nothing.

use tickless_core::event::Flush;
use tickless_core::platform::CpuId;

use crate::machine::machine::World;

impl World {
    /// The timer interrupt of `cpu` ran what was due: from here on a rearm is owed.
    pub(crate) fn owe_rearm(&self, cpu: u32) {
        self.timers.platform().site(cpu).owes_rearm.set(true);
    }

    /// A flush point of `cpu`, which executes.
    pub(crate) fn flush(&self, cpu: u32, point: Flush) {
        // Tested first, without a lock (spec REARM-10).
        if !self.timers.platform().site(cpu).owes_rearm.take() {
            return;
        }
        self.timers.flush_deferred(CpuId(cpu), point);
        self.wrote_once(cpu);
    }
}
