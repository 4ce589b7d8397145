//! What time it is, exactly or cheaply.
//!
//! Two timelines have to agree to the nanosecond: [`std::time::Instant`], by which users judge whether a timer was
//! early, and the core's monotonic instants. The second is defined by the first: an anchor, taken once, says which
//! number belongs to which instant. The number is at or a few nanoseconds above what the kernel's clock shows at that
//! moment, so a deadline handed to the kernel as it stands wakes a few nanoseconds late, never early.
//!
//! # Reading it cheaply
//!
//! Asking the kernel's clock costs 20 to 30 ns through the vDSO, reading the time-stamp counter about half. A thread
//! that starts many timers in a row therefore extrapolates from its last exact reading, by the counter, for at most
//! [`WINDOW`]. That bounds every error: a counter that is wrong by 0.1 % is off by 50 ns. The counter is read before
//! and behind the clock, and what lies between the two is an error too: a reading during which the thread lost its CPU
//! is taken again ([`WIDTH`](reading::WIDTH)). The result is not a time but a bound, and which one is needed is known
//! at every place:
//!
//! - [`at_latest`](Reading::at_latest): not behind the true time, and not behind its last answer to this thread. What a
//!   relative timer counts from, so that it is never early, and of two timers of one length the first ends first.
//! - [`at_earliest`](Reading::at_earliest): not ahead of the true time. What "is anything due?" compares with.
//! - [`exact`](Clock::exact): the kernel's clock, asked. What decides whether a timer fires.
//!
//! # When the counter is not used
//!
//! On other processors than x86-64, when the processor does not promise a constant rate, when the kernel does not trust
//! the counter either, when its rate over two periods differs, or when an extrapolation turns out wrong. Each has its
//! [`Refusal`], and everything falls back to the kernel's clock.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant as StdInstant;

use tickless_core::time::Instant;

mod reading;

pub(crate) use reading::Reading;

/// For how long a reading is extrapolated, in nanoseconds.
pub const WINDOW: u64 = 50_000;
/// The length of each of the two periods over which the rate is measured, in nanoseconds.
const CALIBRATION: u64 = 10_000_000;
/// By how much the two may differ, in parts per million.
const AGREEMENT_PPM: u64 = 200;
/// How often two measurements of the rate may differ.
const ATTEMPTS: u32 = 50;
/// How much the rate is widened on both sides, in parts per million: steering of the kernel's clock (500 at most) and
/// the error of the measurement.
const MARGIN_PPM: u64 = 1_000;
/// What two readings that are a moment apart may seem reordered by, in nanoseconds.
const SKEW: i64 = 32;
/// Extrapolations that may be wrong before the counter is given up.
const STRIKES: u64 = 8;

/// The anchor of the timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    instant: StdInstant,
    nanos: i64,
}

impl Anchor {
    /// Ties the two timelines together.
    pub(crate) fn take() -> Self {
        let mut best: Option<(i64, Self)> = None;
        // The narrowest of a few sandwiches: a preemption in between would make the anchor late for ever.
        for _ in 0..10 {
            let before = kernel_clock();
            let instant = StdInstant::now();
            let nanos = kernel_clock();
            let width = nanos - before;
            if best.is_none_or(|(narrowest, _)| width < narrowest) {
                best = Some((width, Self { instant, nanos }));
            }
        }
        best.map_or_else(
            || Self {
                instant: StdInstant::now(),
                nanos: kernel_clock(),
            },
            |(_, anchor)| anchor,
        )
    }

    /// The core's instant for an instant of the standard library; saturates.
    #[inline]
    pub(crate) fn to_core(self, instant: StdInstant) -> Instant {
        let nanos = match instant.checked_duration_since(self.instant) {
            Some(after) => self.nanos.saturating_add(nanos_of(after)),
            None => self
                .nanos
                .saturating_sub(nanos_of(self.instant.duration_since(instant))),
        };
        Instant::from_nanos(nanos)
    }

    /// The standard library's instant for one of the core's; the exact inverse. `None` before its origin.
    pub(crate) fn to_std(self, instant: Instant) -> Option<StdInstant> {
        let nanos = instant.as_nanos();
        let distance = std::time::Duration::from_nanos(nanos.abs_diff(self.nanos));
        if nanos >= self.nanos {
            self.instant.checked_add(distance)
        } else {
            self.instant.checked_sub(distance)
        }
    }
}

#[inline]
fn nanos_of(duration: std::time::Duration) -> i64 {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(duration.subsec_nanos()))
}

fn kernel_clock() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Why the time-stamp counter is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The processor has none that this library knows.
    NoCounter,
    /// The processor does not promise that it counts at a constant rate.
    NotInvariant,
    /// The kernel keeps its time by something else, named here: it does not trust the counter, or cannot use it.
    KernelUses(String),
    /// What the kernel keeps its time by could not be read (`/sys`, with a file descriptor to spare): it may not trust
    /// the counter.
    KernelDoesNotTell,
    /// Two measurements of the rate differ by so many parts per million, however often they are made.
    Unsteady {
        /// The difference.
        ppm: u64,
    },
    /// Extrapolations were wrong by more than any steering explains.
    Drifted,
    /// The rate is not known yet; it is measured over the first 20 ms of use.
    Calibrating,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCounter => {
                formatter.write_str("this processor has no time-stamp counter that is known here")
            }
            Self::NotInvariant => formatter.write_str(
                "the processor does not promise that its counter runs at a constant rate",
            ),
            Self::KernelUses(name) => {
                write!(
                    formatter,
                    "the kernel's clock source is {name:?}, so it does not trust the counter either"
                )
            }
            Self::KernelDoesNotTell => formatter.write_str(
                "the kernel's clock source could not be read, so it may not trust the counter",
            ),
            Self::Unsteady { ppm } => {
                write!(
                    formatter,
                    "its rate over two periods of 10 ms differs by {ppm} ppm, more than {AGREEMENT_PPM}, and did so \
                     {ATTEMPTS} times"
                )
            }
            Self::Drifted => formatter.write_str("times extrapolated with it turned out wrong"),
            Self::Calibrating => formatter.write_str("its rate is still being measured"),
        }
    }
}

/// What is known of the counter, for the whole process.
#[derive(Debug)]
pub(crate) struct Counter {
    /// Nanoseconds for one cycle, times 2^32; 0 while the counter is not used. The guarded switch of spec TIM-42 to
    /// TIM-46: one word, read when a thread makes an exact reading, which it does every 50 µs at the latest.
    rate: AtomicU64,
    strikes: AtomicU64,
    /// Nothing is to be calibrated any more: a thread that reads the clock need not look.
    settled: AtomicBool,
    calibration: Mutex<Calibration>,
}

/// A calibration that does not go on.
pub(crate) struct Paused<'a> {
    _calibration: std::sync::MutexGuard<'a, Calibration>,
}

#[derive(Debug)]
enum Calibration {
    Start,
    First {
        start: Pair,
        attempt: u32,
    },
    Second {
        start: Pair,
        rate: u64,
        attempt: u32,
    },
    Done,
    Refused(Refusal),
}

/// An exact time and the counter at about that moment.
#[derive(Clone, Copy, Debug)]
struct Pair {
    cycles: u64,
    nanos: i64,
}

impl Counter {
    pub(crate) const fn new() -> Self {
        Self {
            rate: AtomicU64::new(0),
            strikes: AtomicU64::new(0),
            settled: AtomicBool::new(false),
            calibration: Mutex::new(Calibration::Start),
        }
    }

    /// Cycles a second, or why the counter is not used.
    pub(crate) fn judge(&self) -> Result<u64, Refusal> {
        // Relaxed: a report.
        let rate = self.rate.load(Ordering::Relaxed);
        if rate != 0 {
            return Ok(
                u64::try_from((1_000_000_000_u128 << 32) / u128::from(rate)).unwrap_or(u64::MAX)
            );
        }
        match &*lock(&self.calibration) {
            Calibration::Refused(refusal) => Err(refusal.clone()),
            _ => Err(Refusal::Calibrating),
        }
    }

    /// Keeps other threads from calibrating until the result is dropped.
    pub(crate) fn pause(&self) -> Paused<'_> {
        Paused {
            _calibration: lock(&self.calibration),
        }
    }

    /// Moves the calibration on by one exact reading.
    #[cold]
    fn calibrate(&self, now: Pair) {
        // Relaxed: a hint; what is settled the lock protects.
        if self.settled.load(Ordering::Relaxed) {
            return;
        }
        // Never wait: this is on the path of a sleep.
        let Ok(mut calibration) = self.calibration.try_lock() else {
            return;
        };
        let next = match &*calibration {
            Calibration::Start => match usable() {
                Ok(()) => Calibration::First {
                    start: now,
                    attempt: 1,
                },
                Err(refusal) => self.refuse(refusal),
            },
            Calibration::First { start, attempt } => match rate(*start, now) {
                Some(rate) => Calibration::Second {
                    start: now,
                    rate,
                    attempt: *attempt,
                },
                None => return,
            },
            Calibration::Second {
                start,
                rate: first,
                attempt,
            } => match rate(*start, now) {
                Some(second) => {
                    let ppm = first.abs_diff(second) * 1_000_000 / (*first).max(1);
                    if ppm > AGREEMENT_PPM && *attempt == ATTEMPTS {
                        self.refuse(Refusal::Unsteady { ppm })
                    } else if ppm > AGREEMENT_PPM {
                        // The thread that measured may have been interrupted between the two clocks.
                        Calibration::Second {
                            start: now,
                            rate: second,
                            attempt: attempt + 1,
                        }
                    } else {
                        self.settled.store(true, Ordering::Relaxed);
                        // Relaxed: the word carries all there is.
                        self.rate.store(second, Ordering::Relaxed);
                        Calibration::Done
                    }
                }
                None => return,
            },
            Calibration::Done | Calibration::Refused(_) => return,
        };
        *calibration = next;
    }

    fn refuse(&self, refusal: Refusal) -> Calibration {
        // Relaxed: see `calibrate`.
        self.settled.store(true, Ordering::Relaxed);
        Calibration::Refused(refusal)
    }

    /// Notes an extrapolation that was wrong.
    #[cold]
    fn strike(&self) {
        // Relaxed: a count.
        if self.strikes.fetch_add(1, Ordering::Relaxed) + 1 == STRIKES {
            self.rate.store(0, Ordering::Relaxed);
            *lock(&self.calibration) = self.refuse(Refusal::Drifted);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Nanoseconds for one cycle, times 2^32, if the period is long enough and the counter moved.
fn rate(start: Pair, end: Pair) -> Option<u64> {
    let nanos = u64::try_from(end.nanos - start.nanos)
        .ok()
        .filter(|nanos| *nanos >= CALIBRATION)?;
    let cycles = end
        .cycles
        .checked_sub(start.cycles)
        .filter(|cycles| *cycles > 0)?;
    u64::try_from((u128::from(nanos) << 32) / u128::from(cycles)).ok()
}

/// Whether the counter can be used at all.
fn usable() -> Result<(), Refusal> {
    counter::invariant()?;
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match std::fs::read_to_string(path) {
        Ok(source) if source.trim() == "tsc" => Ok(()),
        Ok(source) => Err(Refusal::KernelUses(source.trim().to_owned())),
        Err(_) => Err(Refusal::KernelDoesNotTell),
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod counter {
    use core::arch::x86_64::{__cpuid, CpuidResult};

    use super::Refusal;

    /// Reads the counter. Not ordered with neighbouring instructions: [`SKEW`](super::SKEW) allows for that.
    #[inline]
    pub(crate) fn read() -> u64 {
        // SAFETY: the instruction exists on every x86-64 processor and touches no memory. A process may be forbidden to
        // use it (PR_SET_TSC), which kills the process, as it does for every user of the vDSO's clock.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// Whether the processor promises a constant rate in all its states: CPUID 8000_0007h, EDX bit 8.
    ///
    /// Asked of the processor itself: the kernel says it in a file too, but there are processes without files.
    pub(super) fn invariant() -> Result<(), Refusal> {
        const HIGHEST: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        let promised = leaf(HIGHEST).eax >= POWER && leaf(POWER).edx & (1 << 8) != 0;
        promised.then_some(()).ok_or(Refusal::NotInvariant)
    }

    #[allow(
        unused_unsafe,
        clippy::allow_attributes,
        reason = "newer compilers know that the intrinsic is safe"
    )]
    fn leaf(number: u32) -> CpuidResult {
        // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
        unsafe { __cpuid(number) }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) mod counter {
    use super::Refusal;

    #[inline]
    pub(crate) fn read() -> u64 {
        0
    }

    pub(super) fn invariant() -> Result<(), Refusal> {
        Err(Refusal::NoCounter)
    }
}

/// The process's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) anchor: Anchor,
    pub(crate) counter: Counter,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            anchor: Anchor::take(),
            counter: Counter::new(),
        }
    }

    /// The true time, for threads without a [`Reading`].
    pub(crate) fn exact(&self) -> Instant {
        self.anchor.to_core(StdInstant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_two_timelines_are_inverse() {
        let anchor = Anchor::take();
        for offset in [0, 1, 999_999_999, 5_000_000_000_000] {
            let instant = anchor.instant + Duration::from_nanos(offset);
            assert_eq!(anchor.to_std(anchor.to_core(instant)), Some(instant));
            let earlier = anchor.instant - Duration::from_nanos(offset.min(1_000_000));
            assert_eq!(anchor.to_std(anchor.to_core(earlier)), Some(earlier));
        }
    }

    #[test]
    fn rates_need_a_period_and_a_counter_that_moves() {
        let start = Pair {
            cycles: 1_000,
            nanos: 0,
        };
        let end = |cycles, nanos| Pair { cycles, nanos };
        assert_eq!(rate(start, end(1_000, 20_000_000)), None);
        assert_eq!(rate(start, end(500, 20_000_000)), None);
        assert_eq!(rate(start, end(2_000, 1_000)), None);
        let two_gigahertz = rate(start, end(40_001_000, 20_000_000));
        assert_eq!(two_gigahertz, Some(1 << 31));
    }

    /// The thread that measures may be interrupted between the counter and the clock, but not always.
    #[test]
    fn a_rate_is_measured_until_two_agree_or_it_is_hopeless() {
        if usable().is_err() {
            return;
        }
        // A reading each 20 ms, of a counter with one cycle for each nanosecond; `disturbed` are late.
        let judge = |disturbed: fn(u32) -> bool| {
            let counter = Counter::new();
            let mut reading = 0;
            while !counter.settled.load(Ordering::Relaxed) {
                let nanos = 20_000_000 * i64::from(reading);
                let late = if disturbed(reading) { 1_000_000 } else { 0 };
                counter.calibrate(Pair {
                    cycles: nanos.cast_unsigned() + late,
                    nanos,
                });
                reading += 1;
            }
            (counter.judge(), reading)
        };
        assert_eq!(judge(|_| false), (Ok(1_000_000_000), 3));
        // The rates between a disturbed reading and its neighbours are both wrong.
        assert_eq!(judge(|reading| reading == 1), (Ok(1_000_000_000), 5));
        let (result, readings) = judge(|reading| reading % 2 == 1);
        assert!(
            matches!(result, Err(Refusal::Unsteady { ppm }) if ppm > 50_000),
            "{result:?}"
        );
        assert_eq!(readings, ATTEMPTS + 2);
    }

    #[test]
    fn refusals_say_why() {
        let texts = [
            Refusal::KernelUses("hpet".to_owned()).to_string(),
            Refusal::Unsteady { ppm: 512 }.to_string(),
        ];
        assert!(texts[0].contains("hpet"));
        assert!(texts[1].contains("512 ppm"));
    }
}
