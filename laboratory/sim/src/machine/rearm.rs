//! The flush points of a machine, at which it carries out deferred rearms (spec ).
//!
//! | point | where |
//! |---|---|
//! | FLUSH-1 | an interrupt returns to the task that it interrupted |
//! | FLUSH-3 | an interrupt returns to idle |
//! | FLUSH-4 | before a soft stage |
//! | FLUSH-5 | a task was picked, and its slice began: with a fair queue by the end of the batch of its tick |
//! | FLUSH-7 | the slice of a task is extended, in place of a decision |
//!
//! Interrupts of a machine do not nest, and no program runs a handler by hand, so that the other flush points do not
//! occur and nothing has to be masked at FLUSH-7. System calls (FLUSH-2) owe nothing.

use tickless_core::base::Timers;
use tickless_core::event::Flush;
use tickless_core::platform::CpuId;

use crate::machine::host::Host;
use crate::promise::{Promise, one_device_write_per_interrupt};

/// Notes that the timer interrupt of `cpu` ran the due timers: from here on a rearm is owed.
pub(super) fn owe(host: &Host, cpu: u32) {
    host.local(cpu).owes_rearm.set(true);
}

/// Carries out at `point` the rearm that `cpu`, which executes, owes, if it owes one.
pub(super) fn pay_if_owed(timers: &Timers<Host>, cpu: u32, point: Flush) {
    // Tested first, without a lock (spec REARM-10).
    if timers.platform().local(cpu).owes_rearm.take() {
        pay(timers, cpu, point);
    }
}

/// Carries out at `point` the rearm that `cpu`, which executes, owes.
pub(super) fn pay(timers: &Timers<Host>, cpu: u32, point: Flush) {
    let host = timers.platform();
    timers.flush_deferred(CpuId(cpu), point);
    let mut writes = host.local(cpu).programmings.get();
    if host.breaks(Promise::OneDeviceWritePerInterrupt) {
        writes += 1;
    }
    let wrong = one_device_write_per_interrupt::programmed(writes);
    host.check(Promise::OneDeviceWritePerInterrupt, cpu, wrong);
}
