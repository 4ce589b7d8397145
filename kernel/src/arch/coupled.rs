//! The device of a CPU that compares with the counter itself: that of aarch64 and of riscv64.

use tickless_core::time::convert::Kilohertz;

use super::{Device, KILOHERTZ};

/// The frequency of the counter.
#[inline]
pub(crate) const fn kilohertz() -> Kilohertz {
    KILOHERTZ
}

/// Returns true if the device compares with the counter that drives the time.
pub(crate) const fn is_coupled() -> bool {
    true
}

/// Returns true if a write that moves the device ahead takes back an interrupt that was due under a mask.
pub(crate) const fn takes_back() -> bool {
    true
}

/// Returns the resolution and range of the device, the same whether it takes deadlines or delays.
pub(crate) const fn device(_is_told_when: bool) -> Device {
    Device {
        hertz: KILOHERTZ.0 * 1_000,
        min: 1,
        max: 0x7fff_ffff,
    }
}
