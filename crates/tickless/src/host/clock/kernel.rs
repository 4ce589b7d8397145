//! The kernel's monotonic clock.
//!
//! Where the kernel keeps its time by the processor's counter it answers in user space, through the vDSO, in 20 to 30
//! ns. Where it keeps it by a device (`hpet`, `acpi_pm`) each question is a system call and a reading of that device,
//! which serves one CPU at a time: microseconds, and more the more threads ask. Readings are [combined] there (spec
//! C-6): one thread asks, and all that wait take the answer. Whether it is so is measured once, when the counter is
//! refused.
//!
//! [combined]: tickless_core::clock::combined

use std::sync::atomic::{AtomicBool, Ordering};

use tickless_core::clock::combined::{CombinedClock, SlowCounter};
use tickless_core::clock::follow::Reference;
use tickless_core::time::Instant;

use super::counter;
use crate::host::os;

/// A clock that takes longer to read, in nanoseconds, is worth a combined read: some transfers of a cache line between
/// CPUs.
const SLOW: i64 = 500;
/// Readings to measure that by.
const READINGS: i64 = 64;

/// The kernel's clock, whatever it takes.
#[inline]
pub(super) fn kernel_clock() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The kernel's clock as it is best read, and the counter of the processor.
#[derive(Debug)]
pub(super) struct Kernel {
    is_slow: AtomicBool,
    combined: CombinedClock<SystemCall>,
}

#[derive(Debug)]
struct SystemCall;

impl SlowCounter for SystemCall {
    type Sample = Instant;
    type Masked = ();

    fn sample(&self) -> Instant {
        Instant::from_nanos(kernel_clock())
    }
    fn mask(&self) {}
    fn unmask(&self, (): ()) {}
}

impl Kernel {
    pub(super) const fn new() -> Self {
        Self {
            is_slow: AtomicBool::new(false),
            combined: CombinedClock::new(SystemCall, Instant::ZERO),
        }
    }

    /// Finds out whether readings are to be combined.
    pub(super) fn measure(&self) {
        let start = kernel_clock();
        for _ in 1..READINGS {
            let _now = kernel_clock();
        }
        self.set_slow((kernel_clock() - start) / READINGS > SLOW);
    }

    fn set_slow(&self, is_slow: bool) {
        // Relaxed: both ways of reading show the same clock.
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Whether readings are combined.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }
}

impl Reference for Kernel {
    #[inline]
    fn cycles(&self) -> u64 {
        counter::read_ordered()
    }

    #[inline]
    fn nanos(&self) -> i64 {
        if self.is_slow() {
            // Not one that began before: deadlines count from it.
            return self.combined.read_fresh().as_nanos();
        }
        kernel_clock()
    }

    fn relax(&self, attempt: u32) {
        os::relax(attempt);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::*;

    /// As where the kernel's clock is a device: what is combined is the time within the call, and for all threads.
    #[test]
    fn a_slow_clock_shows_the_time_within_the_call() {
        let kernel = Kernel::new();
        kernel.set_slow(true);
        let told = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let before = told.load(Ordering::Acquire).max(kernel_clock());
                        let now = kernel.nanos();
                        assert!((before..=kernel_clock()).contains(&now));
                        told.fetch_max(now, Ordering::AcqRel);
                    }
                });
            }
        });
    }
}
