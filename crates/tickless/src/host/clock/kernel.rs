//! The kernel's monotonic clock.
//!
//! If the kernel keeps its time by the processor's counter, a reading takes 20 to 30 ns in user space, through the
//! vDSO. If the kernel keeps its time by a device (`hpet`, `acpi_pm`), each reading is a system call and a reading of
//! that device, which serves one CPU at a time. Such a reading takes microseconds, and more if more threads read. Then
//! readings are [combined] (spec C-6): one thread reads the clock, and all waiting threads use the result. Whether
//! readings are slow is measured once, when the counter is refused.
//!
//! [combined]: tickless_core::clock::combined

use std::sync::atomic::{AtomicBool, Ordering};

use tickless_core::clock::combined::{CombinedClock, SlowCounter};
use tickless_core::clock::follow::Reference;
use tickless_core::time::Instant;

use super::counter;
use crate::host::os;

/// The duration of a reading, in nanoseconds, above which readings are combined. A combined reading costs some
/// transfers of a cache line between CPUs.
const SLOW: i64 = 500;
/// The number of readings by which the duration of a reading is measured.
const READINGS: i64 = 64;

/// Reads the kernel's clock, whatever the reading costs.
pub(super) use crate::host::kernel_time::now as kernel_clock;

/// The kernel's clock, as it is best read, and the counter of the processor.
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

    /// Measures whether readings have to be combined.
    pub(super) fn measure(&self) {
        let mut last = kernel_clock();
        // The fastest one: a thread may be interrupted in most of them.
        let fastest = (0..READINGS).map(|_| {
            let now = kernel_clock();
            now - std::mem::replace(&mut last, now)
        });
        self.set_slow(fastest.min().is_some_and(|fastest| fastest > SLOW));
    }

    /// Stops combining readings while the counter is measured, because the measurement needs narrow readings.
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

/// A clock for counting instructions in an emulator of processors, where the real clock cannot be followed.
///
/// Valgrind passes the processor's counter to the program, but not the promise that its rate is constant. A reading of
/// the kernel's clock takes so long in Valgrind that no line is narrow enough to be followed. So the reference is the
/// counter itself, in steps so large that a step rarely falls between two readings.
#[cfg(feature = "internals")]
pub(crate) mod emulation {
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::{counter, kernel_clock};

    /// The length of a step in cycles: a few microseconds.
    const STEP: u64 = 1 << 14;

    struct Emulation {
        cycles: u64,
        nanos: i64,
        /// The nanoseconds for a cycle.
        rate: f64,
    }

    static EMULATION: OnceLock<Emulation> = OnceLock::new();

    /// Starts the emulation for the rest of the process. Called before the first reading of the clock.
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

    /// Readings are combined as if the kernel's clock were a device. The result is a time within the call, for all
    /// threads.
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
