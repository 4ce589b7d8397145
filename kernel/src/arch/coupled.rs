//! The coupled device of a CPU on aarch64 and riscv64, which compares with the counter that drives the time.

use tickless_core::time::convert::Kilohertz;

use super::KILOHERTZ;
use super::interface::Device;

/// Returns the frequency of the counter.
#[inline]
pub(crate) const fn kilohertz() -> Kilohertz {
    KILOHERTZ
}

/// Returns true if the device compares with the counter that drives the time.
pub(crate) const fn is_coupled() -> bool {
    true
}

/// Returns the register by which software moves the counter of the executing CPU; `None`, because there is none.
pub(crate) const fn adjustment() -> Option<u64> {
    None
}

/// Writes the register that [`adjustment`] returned.
pub(crate) const fn adjust(_value: u64) {}

/// Returns true if a write that moves the device later withdraws an interrupt that was due while interrupts were
/// masked.
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
