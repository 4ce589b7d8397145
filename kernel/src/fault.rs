//! The counter of each CPU, and the faults that a test gives it: a jump, a drift, a lag of one CPU.
//!
//! No emulated counter is wrong, so the kernel falsifies its readings. A device that compares with the counter is
//! written for the true value, as if it compared with the false one.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(not(feature = "conformance"))]
use crate::arch;
use crate::arch::CPUS_MAX;
#[cfg(feature = "conformance")]
use crate::played as arch;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// True if software may move the counters while the fault lasts.
static IS_MOVABLE: AtomicBool = AtomicBool::new(false);
/// The value from which on the counter drifts, and by how many parts per million.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static PPM: AtomicU64 = AtomicU64::new(0);
/// The counts by which all counters jumped, and by which each is ahead: a register that software may write.
static JUMP: AtomicU64 = AtomicU64::new(0);
static AHEAD: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];

// Relaxed, as all below: a test changes the faults where it does not matter to which reading a change comes first.
fn of(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

/// Returns the counter of the executing CPU.
#[inline]
pub(crate) fn counter() -> u64 {
    let counter = arch::counter();
    if IS_ON.load(Ordering::Relaxed) {
        falsified(counter)
    } else {
        counter
    }
}

#[cold]
fn falsified(counter: u64) -> u64 {
    let drift = u128::from(counter.saturating_sub(of(&BEGAN))) * u128::from(of(&PPM)) / 1_000_000;
    // What it gains in a test fits.
    let drift = u64::try_from(drift).unwrap_or(u64::MAX);
    counter.wrapping_add(drift).wrapping_add(shift())
}

fn shift() -> u64 {
    of(&JUMP).wrapping_add(of(&AHEAD[arch::cpu()]))
}

/// Returns the true value at which the counter of the executing CPU shows `shown`.
pub(crate) fn true_value(shown: u64) -> u64 {
    if !IS_ON.load(Ordering::Relaxed) {
        return shown;
    }
    let drifted = shown.wrapping_sub(shift());
    let Some(since) = drifted.checked_sub(of(&BEGAN)) else {
        return drifted;
    };
    let since = (u128::from(since) * 1_000_000).div_ceil(1_000_000 + u128::from(of(&PPM)));
    of(&BEGAN).saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
}

/// Returns the register by which software moves the counter of the executing CPU; `None` if there is none.
pub(crate) fn adjustment() -> Option<u64> {
    if IS_ON.load(Ordering::Relaxed) {
        return IS_MOVABLE
            .load(Ordering::Relaxed)
            .then(|| of(&AHEAD[arch::cpu()]));
    }
    arch::adjustment()
}

/// Writes the register that [`adjustment`] returned.
pub(crate) fn adjust(value: u64) {
    if IS_ON.load(Ordering::Relaxed) {
        AHEAD[arch::cpu()].store(value, Ordering::Relaxed);
    } else {
        arch::adjust(value);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The counters of all CPUs jump ahead by so many counts.
    Jump(u64),
    /// The counters of all CPUs are fast by so many parts per million.
    Drift(u64),
    /// The counter of the executing CPU is behind by so many counts; software may move it, or not.
    Lag { counts: u64, is_movable: bool },
}

impl Fault {
    pub(crate) fn begin(self) {
        match self {
            Self::Jump(counts) => JUMP.store(counts, Ordering::Relaxed),
            Self::Drift(ppm) => {
                BEGAN.store(arch::counter(), Ordering::Relaxed);
                PPM.store(ppm, Ordering::Relaxed);
            }
            Self::Lag { counts, is_movable } => {
                IS_MOVABLE.store(is_movable, Ordering::Relaxed);
                AHEAD[arch::cpu()].store(counts.wrapping_neg(), Ordering::Relaxed);
            }
        }
        IS_ON.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end_all() {
        IS_ON.store(false, Ordering::Relaxed);
        for value in AHEAD.iter().chain([&BEGAN, &PPM, &JUMP]) {
            value.store(0, Ordering::Relaxed);
        }
    }
}
