//! The kernel's monotonic clock, and deadlines as the kernel takes them.

use rustix::time::Timespec;
use tickless_core::time::Instant;

/// What the kernel's monotonic clock shows, in nanoseconds.
#[inline]
pub(crate) fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A deadline as the kernel takes it: absolute, on its monotonic clock. `None` for "never".
pub(crate) fn timespec(deadline: Instant) -> Option<Timespec> {
    if deadline.is_forever() {
        return None;
    }
    let nanos = deadline.as_nanos().max(0);
    Some(Timespec {
        tv_sec: nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    })
}
