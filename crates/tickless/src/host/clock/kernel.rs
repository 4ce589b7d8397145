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
pub(super) use crate::host::kernel_time::now as kernel_clock;

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
        let mut last = kernel_clock();
        // The fastest one: a thread may be interrupted in most of them.
        let fastest = (0..READINGS).map(|_| {
            let now = kernel_clock();
            now - std::mem::replace(&mut last, now)
        });
        self.set_slow(fastest.min().is_some_and(|fastest| fastest > SLOW));
    }

    /// Readings are not combined while the counter is measured, which takes narrow ones.
    pub(super) fn read_alone(&self) {
        self.set_slow(false);
    }

    fn set_slow(&self, is_slow: bool) {
        // Relaxed: both ways of reading show the same clock.
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Returns whether readings are combined.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }
}

impl Reference for Kernel {
    #[inline]
    fn cycles(&self) -> u64 {
        #[cfg(feature = "internals")]
        if emulation::is_on() {
            return emulation::cycles();
        }
        counter::read_ordered()
    }

    #[inline]
    fn nanos(&self) -> i64 {
        #[cfg(feature = "internals")]
        if let Some(nanos) = emulation::nanos() {
            return nanos;
        }
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

/// A clock that is as good as a real one below an emulator of processors, for counting instructions.
///
/// Valgrind hands on the counter of the processor below it, but not that its rate is constant; and a reading of the
/// kernel's clock takes so long there that no line is narrow enough to be followed. So the reference is the counter
/// itself, in steps so large that hardly ever one comes between two readings.
#[cfg(feature = "internals")]
pub(crate) mod emulation {
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::{counter, kernel_clock};

    /// A few microseconds.
    const STEP: u64 = 1 << 14;

    struct Emulation {
        cycles: u64,
        nanos: i64,
        /// Nanoseconds for a cycle.
        rate: f64,
    }

    static EMULATION: OnceLock<Emulation> = OnceLock::new();

    /// Begins, for the rest of the process, before the clock was read.
    pub(crate) fn begin() {
        EMULATION.get_or_init(|| {
            let (cycles, nanos) = (cycles(), kernel_clock());
            std::thread::sleep(Duration::from_millis(50));
            let passed = (self::cycles() - cycles, kernel_clock() - nanos);
            let rate = passed.1 as f64 / passed.0 as f64;
            Emulation {
                cycles,
                nanos,
                rate,
            }
        });
    }

    pub(crate) fn is_on() -> bool {
        EMULATION.get().is_some()
    }

    pub(super) fn cycles() -> u64 {
        counter::read_ordered() / STEP * STEP
    }

    pub(super) fn nanos() -> Option<i64> {
        let emulation = EMULATION.get()?;
        let passed = cycles() - emulation.cycles;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "nanoseconds of a short life"
        )]
        let passed = (passed as f64 * emulation.rate) as i64;
        Some(emulation.nanos + passed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::*;

    /// Readings are combined as if the kernel's clock were a device: for the time within the call, and for all threads.
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
