//! The HPET, the timer that all CPUs share: a counter that is slow to read, and two comparators.
//!
//! The first comparator wakes CPUs out of deep idle; the second one is the watchdog. Both use the interrupt routes of
//! two older timers (interrupts 0 and 8), which are silent while the HPET runs.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::arch::interface::{load, store};

const PERIOD: usize = 0x04;
const CONTROL: usize = 0x10;
const COUNTER: usize = 0xf0;
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;

/// The counter runs, and the comparators have the interrupt routes of the older timers.
const RUNS: u32 = 0b11;
/// The comparator interrupts, once, by an edge.
const INTERRUPTS: u32 = 1 << 2;

/// The comparator that ends a run.
pub(super) const WATCHDOG: usize = 1;

/// The comparator that wakes CPUs out of deep idle.
pub(super) const BROADCAST: usize = 0;

/// Address of the registers, written before any other CPU runs.
static PLACE: AtomicUsize = AtomicUsize::new(0);
static IS_SLOW: AtomicBool = AtomicBool::new(false);

fn register(offset: usize) -> usize {
    // Relaxed: written before any other CPU runs.
    PLACE.load(Ordering::Relaxed) + offset
}

/// Starts the counter; returns its ticks a second.
///
/// # Errors
///
/// The period that the device reports, in femtoseconds, if it is outside the range that the standard allows.
pub(super) fn init(place: u64) -> Result<u64, u32> {
    // Relaxed: no other CPU runs.
    PLACE.store(place as usize, Ordering::Relaxed);
    let period = load(register(PERIOD));
    if !(100_000..=100_000_000).contains(&period) {
        return Err(period);
    }
    store(register(CONTROL), 0);
    store(register(CONTROL), RUNS);
    Ok(FEMTOSECONDS / u64::from(period))
}

/// Returns the counter of the HPET, which is the same for all CPUs and has 64 bits, read as two halves.
pub(crate) fn counter() -> u64 {
    let half = |offset| load(register(COUNTER + offset));
    let mut high = half(4);
    loop {
        let low = half(0);
        // The high half moves each 43 s: it is read again, and nearly never a third time.
        let again = half(4);
        if again == high {
            return u64::from(high) << 32 | u64::from(low);
        }
        high = again;
    }
}

pub(super) fn lower() -> u32 {
    load(register(COUNTER))
}

/// Sets a comparator to interrupt when the counter is at `when`.
pub(super) fn compare(comparator: usize, when: u64) {
    let place = 0x100 + 0x20 * comparator;
    // Stopped first: one half of the new time and the other one of the old time may be a time that is over.
    store_slow(place, 0);
    store_slow(place + 0xc, (when >> 32) as u32);
    store_slow(place + 0x8, when as u32);
    store_slow(place, INTERRUPTS);
}

/// Sets whether the writes of [`compare`] take as long as those of a real device do. For a test.
pub(super) fn set_slow(is_slow: bool) {
    // Relaxed: only the CPU that sets it writes comparators meanwhile.
    IS_SLOW.store(is_slow, Ordering::Relaxed);
}

/// Writes a register. An emulator's device takes each value at once, before a comparator of it can fire.
fn store_slow(offset: usize, value: u32) {
    store(register(offset), value);
    // Relaxed: see `set_slow`.
    if IS_SLOW.load(Ordering::Relaxed) {
        for round in 0..1_000 {
            black_box(round);
        }
    }
}

pub(super) fn stop(comparator: usize) {
    store(register(0x100 + 0x20 * comparator), 0);
}
