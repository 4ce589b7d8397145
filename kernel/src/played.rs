//! The machine as the conformance suites play it: its counter, its devices and its CPUs are numbers that a suite sets.
//!
//! In an image with the suites, the kernel's host and clock call this module in place of the machine. While no suite
//! runs, it passes each call on to the machine.
//!
//! # Ground rules
//!
//! One CPU executes the suites, and none of its interrupts reads the played machine.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tickless_core::link::lock::Lock;
use tickless_core::time::Instant;
use tickless_core::time::convert::Kilohertz;
use tickless_core::trace::Event;

use crate::arch::{self, CPUS_MAX, Device};
use crate::lock::MaskingLock;
use crate::note::Note;

pub(crate) use crate::arch::{PAUSE_YIELDS, is_masked, mask, relax, restore, sleep_masked};

/// The number of a CPU that does not exist: its place in the table of bases stays empty.
pub(crate) const NO_CPU: usize = CPUS_MAX - 1;
/// Frequency of the counters: a count is a nanosecond.
const KILOHERTZ: Kilohertz = Kilohertz(1_000_000);
/// The nanoseconds that a write takes, after which the device can fire for it. If a write took no time, a deadline that
/// is converted a nanosecond early would be written again for ever (spec CPL-9).
const WRITE_TAKES: u64 = 20;
/// The fire time of a device that is not armed.
pub(crate) const NEVER: u64 = u64::MAX;

static IS_ON: Note = Note::new();
pub(crate) static CPU: AtomicUsize = AtomicUsize::new(NO_CPU);
pub(crate) static NOW: AtomicU64 = AtomicU64::new(0);
pub(crate) static READINGS: AtomicU64 = AtomicU64::new(0);
pub(crate) static FIRES: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(NEVER) }; CPUS_MAX];
pub(crate) static EVENTS: Lock<MaskingLock, Vec<Event>> = Lock::new(MaskingLock::new(), Vec::new());

/// Executes `suites`, which play the machine.
pub(crate) fn play<R>(suites: impl FnOnce() -> R) -> R {
    IS_ON.leave();
    let result = suites();
    IS_ON.set(false);
    result
}

/// Returns true while suites play the machine.
pub(crate) fn is_on() -> bool {
    IS_ON.is_there()
}

/// Keeps an event; false if no suite runs.
pub(crate) fn keep(event: Event) -> bool {
    let is_on = IS_ON.is_there();
    if is_on {
        EVENTS.lock(None).push(event);
    }
    is_on
}

// Relaxed, as all below: one CPU executes the suites.
fn played<T>(played: impl FnOnce() -> T, machine: impl FnOnce() -> T) -> T {
    if IS_ON.is_there() {
        played()
    } else {
        machine()
    }
}

/// See [`arch::cpu`].
pub(crate) fn cpu() -> usize {
    played(|| CPU.load(Ordering::Relaxed), arch::cpu)
}

/// See [`arch::counter`].
pub(crate) fn counter() -> u64 {
    let read = || {
        READINGS.fetch_add(1, Ordering::Relaxed);
        NOW.load(Ordering::Relaxed)
    };
    played(read, arch::counter)
}

/// See [`arch::adjustment`].
pub(crate) fn adjustment() -> Option<u64> {
    arch::adjustment()
}

/// See [`arch::adjust`].
pub(crate) fn adjust(value: u64) {
    arch::adjust(value);
}

/// See [`arch::kilohertz`].
pub(crate) fn kilohertz() -> Kilohertz {
    played(|| KILOHERTZ, arch::kilohertz)
}

/// See [`arch::shared_counter`].
pub(crate) fn shared_counter() -> u64 {
    played(counter, arch::shared_counter)
}

/// See [`arch::shared_kilohertz`].
pub(crate) fn shared_kilohertz() -> Kilohertz {
    played(|| KILOHERTZ, arch::shared_kilohertz)
}

/// See [`arch::is_coupled`].
pub(crate) fn is_coupled() -> bool {
    played(|| true, arch::is_coupled)
}

/// See [`arch::device`].
pub(crate) fn device(is_told_when: bool) -> Device {
    let device = || Device {
        hertz: 1_000_000_000,
        min: 1,
        max: 60_000_000_000,
    };
    played(device, || arch::device(is_told_when))
}

/// See [`arch::write_coupled`]: the device fires at once for a time that is over.
pub(crate) fn write_coupled(cycles: u64) {
    let write = || {
        if cycles == NEVER {
            return FIRES[cpu()].store(NEVER, Ordering::Relaxed);
        }
        let done = NOW.load(Ordering::Relaxed) + WRITE_TAKES;
        FIRES[cpu()].store(cycles.max(done), Ordering::Relaxed);
    };
    played(write, || arch::write_coupled(cycles));
}

/// See [`arch::write_relative`].
pub(crate) fn write_relative(ticks: u64) {
    let write = || {
        let at = NOW.load(Ordering::Relaxed) + ticks.max(WRITE_TAKES);
        FIRES[cpu()].store(at, Ordering::Relaxed);
    };
    played(write, || arch::write_relative(ticks));
}

/// Makes the device of the executing CPU fire at an instant of the clock, as no device of a real machine does.
/// `shown_at` predicts the reading of the clock at a true time.
pub(crate) fn write_absolute(when: Instant, shown_at: impl Fn(u64) -> Instant) {
    let now = NOW.load(Ordering::Relaxed);
    let at = if when.is_forever() {
        NEVER
    } else {
        first_at(shown_at, now, when).max(now + WRITE_TAKES)
    };
    FIRES[cpu()].store(at, Ordering::Relaxed);
}

/// Returns the first true time from `now` on at which the clock shows `when` or more.
fn first_at(shown_at: impl Fn(u64) -> Instant, now: u64, when: Instant) -> u64 {
    if shown_at(now) >= when {
        return now;
    }
    // The clock is steered by 0.05 % at most, so twice the distance is beyond the end.
    let ahead = when.saturating_since(shown_at(now)).as_nanos();
    let (mut low, mut high) = (now, now.saturating_add(2 * ahead.min(1 << 61) + 1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if shown_at(middle) >= when {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// See [`arch::stop_device`].
pub(crate) fn stop_device() {
    played(
        || FIRES[cpu()].store(NEVER, Ordering::Relaxed),
        arch::stop_device,
    );
}

/// See [`arch::interrupt_cpu`]. A suite reads the requests to a CPU itself.
pub(crate) fn interrupt_cpu(cpu: usize) {
    played(|| (), || arch::interrupt_cpu(cpu));
}
