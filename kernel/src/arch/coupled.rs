//! The coupled device of a CPU on aarch64 and riscv64, which compares with the counter that drives the time.

use tickless_core::time::convert::Kilohertz;

use super::interface::Device;
use super::{KILOHERTZ, counter, interrupt_cpu, write_coupled};

#[inline]
pub(crate) const fn kilohertz() -> Kilohertz {
    KILOHERTZ
}

pub(crate) const fn is_coupled() -> bool {
    true
}

/// Returns the register by which software moves the counter of the executing CPU; `None`, because there is none.
pub(crate) const fn adjustment() -> Option<u64> {
    None
}

pub(crate) const fn adjust(_value: u64) {}

pub(crate) const fn takes_back() -> bool {
    true
}

/// Returns the resolution and range of the device, which are the same for deadlines and for delays.
pub(crate) const fn device(_is_told_when: bool) -> Device {
    Device {
        hertz: KILOHERTZ.0 * 1_000,
        min: 1,
        max: 0x7fff_ffff,
    }
}

pub(crate) fn write_relative(ticks: u64) {
    // One more: the tick in progress is not a whole one.
    write_coupled(counter().saturating_add(ticks).saturating_add(1));
}

/// Stops the device of the executing CPU: a comparator of all ones never fires.
pub(crate) fn stop_device() {
    write_coupled(u64::MAX);
}

/// Sends the interrupt as [`interrupt_cpu`] does, which any code may interrupt.
pub(crate) fn interrupt_cpu_on_top(cpu: usize) {
    interrupt_cpu(cpu);
}
