//! The test that decides if the processor's counter may be used, and the measurement of its rate.
//!
//! The rate is measured by two readings of the kernel's clock, each taken between two readings of the counter. If a
//! thread is interrupted in such a reading, the value of the counter is uncertain by the time of the interruption. So a
//! reading that is wide for its distance from the other reading is not used.
//!
//! A counter that is refused for its readings ([`is_passing`](Refusal::is_passing)) is measured again after
//! [`RETRY_AFTER`], after twice that time if it is refused again, and so on for [`RETRIES_DOUBLE`] doublings. The causes
//! are temporary: a loaded machine, a clock that is corrected fast, or a machine that slept.

use std::io::Read as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use tickless_core::clock::follow::{Asked, Sandwich};

use super::counter;
use super::refusal::{AGREEMENT_PPM, ATTEMPTS, Refusal};
use crate::host::sys::IS_PORTABLE;

/// The length of each of the two periods over which the rate is measured, in nanoseconds.
const CALIBRATION: u64 = 10_000_000;
/// The number of times that the kernel's clock may be further off than any steering explains.
const STRIKES: u64 = 8;
/// The number of readings in a row that may be too wide to decide. Even a machine that interrupts its threads all the
/// time has a narrow reading now and then.
const WIDE: u64 = 1_000;
/// The least time of such a row, in nanoseconds, before a counter that was used is given up. A virtual machine may be
/// slow for tens of milliseconds, in which a thread that arms timers reads the clock thousands of times.
const WIDE_FOR: i64 = 1_000_000_000;

/// The permitted uncertainty of the counter at both ends of a period together, in parts per million of the period: half
/// of the difference that two rates may have.
const OPEN_PPM: u64 = AGREEMENT_PPM / 2;
/// The time after which a counter that was refused for the first time is measured again, in nanoseconds.
const RETRY_AFTER: u64 = 10_000_000_000;
/// The number of times that this time doubles: a machine that was busy for an hour is measured again within 80 s.
const RETRIES_DOUBLE: u64 = 3;

/// The facts about the counter, for the whole process.
#[derive(Debug)]
pub(super) struct Judge {
    /// The earliest time of the next measurement of the counter, in nanoseconds; `i64::MAX` for never.
    retry_at: AtomicI64,
    /// The number of times that the counter was refused for its readings.
    refusals: AtomicU64,
    strikes: AtomicU64,
    /// The number of wide readings in a row.
    wide: AtomicU64,
    /// The time of the first of them, in nanoseconds.
    wide_since: AtomicI64,
    /// True if no calibration is needed any more.
    settled: AtomicBool,
    calibration: Mutex<Calibration>,
}

/// The next step with the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The judgement changes nothing.
    GoOn,
    /// The measurement begins here, for the first time or again.
    Begin,
    /// The counter may be used: one cycle takes the contained number of nanoseconds, times 2^32.
    Follow(u64),
    /// The counter may not be used.
    Refuse,
    /// The counter may no longer be used.
    GiveUp,
}

/// A calibration that is paused.
pub(crate) struct Paused<'a> {
    _calibration: std::sync::MutexGuard<'a, Calibration>,
}

#[derive(Debug)]
enum Calibration {
    Start,
    First {
        start: Sandwich,
        attempt: u32,
    },
    Second {
        start: Sandwich,
        rate: u64,
        attempt: u32,
    },
    Done,
    Refused(Refusal),
}

impl Judge {
    pub(super) const fn new() -> Self {
        Self {
            retry_at: AtomicI64::new(i64::MAX),
            refusals: AtomicU64::new(0),
            strikes: AtomicU64::new(0),
            wide: AtomicU64::new(0),
            wide_since: AtomicI64::new(0),
            settled: AtomicBool::new(false),
            calibration: Mutex::new(Calibration::Start),
        }
    }

    /// Returns the reason why the counter is not used.
    pub(super) fn refusal(&self) -> Refusal {
        match &*lock(&self.calibration) {
            Calibration::Refused(Refusal::KernelUses(name)) if name.is_empty() => {
                let mut text = [0; CLOCK_SOURCE_MAX];
                Refusal::KernelUses(clock_source(&mut text).unwrap_or_default().to_owned())
            }
            Calibration::Refused(refusal) => refusal.clone(),
            _ => Refusal::Calibrating,
        }
    }

    /// Returns true once no calibration is needed any more, or none for a while.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        // Relaxed: a hint; what is settled the lock protects.
        self.settled.load(Ordering::Relaxed)
    }

    /// Keeps other threads from calibrating until the result is dropped.
    pub(super) fn pause(&self) -> Paused<'_> {
        Paused {
            _calibration: lock(&self.calibration),
        }
    }

    /// Evaluates a reading of the kernel's clock, and returns the next step with the counter.
    pub(super) fn take(&self, asked: &Asked) -> Judgement {
        if !self.is_settled() {
            return self.calibrate(asked.taken);
        }
        // Relaxed: as above.
        if asked.taken.nanos >= self.retry_at.load(Ordering::Relaxed) {
            return self.begin_again(asked.taken);
        }
        if asked.is_misfit {
            // Relaxed, here and below: counts.
            let times = self.strikes.fetch_add(1, Ordering::Relaxed) + 1;
            if times == STRIKES {
                return self.give_up(Refusal::Drifted { times }, asked.taken);
            }
        }
        if asked.is_wide {
            let readings = self.wide.fetch_add(1, Ordering::Relaxed) + 1;
            let now = asked.taken.nanos;
            if readings == 1 {
                self.wide_since.store(now, Ordering::Relaxed);
            }
            let since = self.wide_since.load(Ordering::Relaxed);
            if readings >= WIDE && now.saturating_sub(since) >= WIDE_FOR {
                return self.give_up(Refusal::Slow { readings }, asked.taken);
            }
        } else if self.wide.load(Ordering::Relaxed) != 0 {
            self.wide.store(0, Ordering::Relaxed);
        }
        Judgement::GoOn
    }

    fn give_up(&self, refusal: Refusal, now: Sandwich) -> Judgement {
        let mut calibration = lock(&self.calibration);
        if matches!(*calibration, Calibration::Done) {
            *calibration = self.refuse(refusal, now);
            return Judgement::GiveUp;
        }
        Judgement::GoOn
    }

    /// Begins to measure a counter again that was refused a while ago.
    #[cold]
    fn begin_again(&self, now: Sandwich) -> Judgement {
        // Never wait, as below.
        let Ok(mut calibration) = self.calibration.try_lock() else {
            return Judgement::GoOn;
        };
        if !matches!(&*calibration, Calibration::Refused(refusal) if refusal.is_passing()) {
            return Judgement::GoOn;
        }
        *calibration = Calibration::First {
            start: now,
            attempt: 1,
        };
        // Relaxed, all: the lock orders them, and `take` reads hints.
        self.retry_at.store(i64::MAX, Ordering::Relaxed);
        self.strikes.store(0, Ordering::Relaxed);
        self.wide.store(0, Ordering::Relaxed);
        self.settled.store(false, Ordering::Relaxed);
        Judgement::Begin
    }

    /// Returns the rate from `start` to `now`, if both are narrow enough for their distance. A better reading replaces
    /// a wide start, and a wide end does not count. If all readings are wide, the counter is refused.
    fn measure(&self, start: Sandwich, now: Sandwich) -> Measured {
        if let Some(rate) = rate(start, now) {
            // Relaxed, all here: a count, with the lock held.
            self.wide.store(0, Ordering::Relaxed);
            return Measured::Rate(rate);
        }
        if width(now) < width(start) / 2 {
            return Measured::BetterStart;
        }
        if is_over(start, now) {
            let readings = self.wide.fetch_add(1, Ordering::Relaxed) + 1;
            if readings >= WIDE {
                return Measured::Slow(readings);
            }
        }
        Measured::NotYet
    }

    /// Advances the calibration by one reading.
    #[cold]
    fn calibrate(&self, now: Sandwich) -> Judgement {
        // Never wait: this is on the path of a sleep.
        let Ok(mut calibration) = self.calibration.try_lock() else {
            return Judgement::GoOn;
        };
        let mut judgement = Judgement::GoOn;
        let next = match &*calibration {
            Calibration::Start => match usable() {
                Ok(()) => {
                    judgement = Judgement::Begin;
                    Calibration::First {
                        start: now,
                        attempt: 1,
                    }
                }
                Err(refusal) => {
                    judgement = Judgement::Refuse;
                    self.refuse(refusal, now)
                }
            },
            Calibration::First { start, attempt } => match self.measure(*start, now) {
                Measured::Rate(rate) => Calibration::Second {
                    start: now,
                    rate,
                    attempt: *attempt,
                },
                Measured::BetterStart => Calibration::First {
                    start: now,
                    attempt: *attempt,
                },
                Measured::Slow(readings) => {
                    judgement = Judgement::Refuse;
                    self.refuse(Refusal::Slow { readings }, now)
                }
                Measured::NotYet => return judgement,
            },
            Calibration::Second {
                start,
                rate: first,
                attempt,
            } => match self.measure(*start, now) {
                Measured::Rate(second) => {
                    let (next, judged) = self.compare(*first, second, *attempt, now);
                    judgement = judged;
                    next
                }
                Measured::BetterStart => Calibration::Second {
                    start: now,
                    rate: *first,
                    attempt: *attempt,
                },
                Measured::Slow(readings) => {
                    judgement = Judgement::Refuse;
                    self.refuse(Refusal::Slow { readings }, now)
                }
                Measured::NotYet => return judgement,
            },
            Calibration::Done | Calibration::Refused(_) => return judgement,
        };
        *calibration = next;
        judgement
    }

    /// Compares two rates in a row, the second one up to `now`. Called with the calibration locked.
    fn compare(
        &self,
        first: u64,
        second: u64,
        attempt: u32,
        now: Sandwich,
    ) -> (Calibration, Judgement) {
        let ppm = first.abs_diff(second) * 1_000_000 / first.max(1);
        if ppm <= AGREEMENT_PPM {
            // Relaxed: see `take`.
            self.settled.store(true, Ordering::Relaxed);
            return (Calibration::Done, Judgement::Follow(second));
        }
        if attempt == ATTEMPTS {
            let refused = self.refuse(Refusal::Unsteady { ppm }, now);
            return (refused, Judgement::Refuse);
        }
        // The thread that measured may have been interrupted between the two clocks.
        let again = Calibration::Second {
            start: now,
            rate: second,
            attempt: attempt + 1,
        };
        (again, Judgement::GoOn)
    }

    /// Refuses the counter, for a while if a later measurement may succeed. Called with the calibration locked.
    fn refuse(&self, refusal: Refusal, now: Sandwich) -> Calibration {
        if refusal.is_passing() {
            // Relaxed, both: a count, with the lock held; see `take`.
            let before = self.refusals.fetch_add(1, Ordering::Relaxed);
            let after = RETRY_AFTER << before.min(RETRIES_DOUBLE);
            let retry_at = now.nanos.saturating_add_unsigned(after);
            self.retry_at.store(retry_at, Ordering::Relaxed);
        }
        // Relaxed: see `take`.
        self.settled.store(true, Ordering::Relaxed);
        Calibration::Refused(refusal)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The result of a reading together with the start of the period.
enum Measured {
    /// The rate: nanoseconds for one cycle, times 2^32.
    Rate(u64),
    /// The reading is much narrower than the start.
    BetterStart,
    /// The readings were too wide; the number of them in a row.
    Slow(u64),
    /// The reading is too early, or too wide.
    NotYet,
}

/// Returns the uncertainty of a reading, in cycles.
const fn width(reading: Sandwich) -> u64 {
    reading.behind.saturating_sub(reading.before)
}

/// Returns whether the period is long enough.
fn is_over(start: Sandwich, end: Sandwich) -> bool {
    end.nanos.saturating_sub(start.nanos) >= CALIBRATION.cast_signed()
}

/// Returns the nanoseconds for one cycle, times 2^32, if the period is long enough, the counter moved, and both
/// readings are narrow enough to say how far it moved.
fn rate(start: Sandwich, end: Sandwich) -> Option<u64> {
    if !is_over(start, end) {
        return None;
    }
    let nanos = end.nanos.abs_diff(start.nanos);
    let cycles = end
        .behind
        .checked_sub(start.behind)
        .filter(|cycles| *cycles > 0)?;
    let open = u128::from(width(start)) + u128::from(width(end));
    if open * 1_000_000 > u128::from(cycles) * u128::from(OPEN_PPM) {
        return None;
    }
    u64::try_from((u128::from(nanos) << 32) / u128::from(cycles)).ok()
}

/// Returns whether the counter can be used at all, or the reason why not.
pub(super) fn usable() -> Result<(), Refusal> {
    if IS_PORTABLE {
        return Err(Refusal::PortableHost);
    }
    let Some(source) = counter::SOURCE else {
        return Err(Refusal::NoCounter);
    };
    #[cfg(feature = "internals")]
    if super::kernel::emulation::is_on() {
        return Ok(());
    }
    if !counter::is_invariant() {
        return Err(Refusal::NotInvariant);
    }
    match clock_source(&mut [0; CLOCK_SOURCE_MAX]) {
        Some(name) if name == source => Ok(()),
        // `refusal` reads the name again: a signal handler may make the first reading, so this one allocates nothing.
        Some(_) => Err(Refusal::KernelUses(String::new())),
        None => Err(Refusal::KernelDoesNotTell),
    }
}

/// The space for the name of a clock source, more than any name needs.
const CLOCK_SOURCE_MAX: usize = 64;

/// Returns the name of the kernel's clock source, in `text`.
fn clock_source(text: &mut [u8]) -> Option<&str> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let length = std::fs::File::open(path).ok()?.read(text).ok()?;
    Some(std::str::from_utf8(text.get(..length)?).ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn sandwich(cycles: u64, nanos: i64) -> Sandwich {
        Sandwich {
            before: cycles,
            nanos,
            behind: cycles,
        }
    }

    const fn asked(cycles: u64, nanos: i64) -> Asked {
        Asked {
            taken: sandwich(cycles, nanos),
            is_misfit: false,
            is_wide: false,
        }
    }

    #[test]
    fn rates_need_a_period_and_a_counter_that_moves() {
        let start = sandwich(1_000, 0);
        assert_eq!(rate(start, sandwich(1_000, 20_000_000)), None);
        assert_eq!(rate(start, sandwich(500, 20_000_000)), None);
        assert_eq!(rate(start, sandwich(2_000, 1_000)), None);
        let two_gigahertz = rate(start, sandwich(40_001_000, 20_000_000));
        assert_eq!(two_gigahertz, Some(1 << 31));
    }

    /// The thread that measures may be interrupted between the counter and the clock, but not always.
    #[test]
    fn a_rate_is_measured_until_two_agree_or_it_is_hopeless() {
        if usable().is_err() {
            return;
        }
        // A reading each 20 ms, of a counter with one cycle for each nanosecond; `disturbed` are late.
        let run = |disturbed: fn(u32) -> bool| {
            let judge = Judge::new();
            let mut rate = None;
            let mut reading = 0;
            while !judge.settled.load(Ordering::Relaxed) {
                let nanos = 20_000_000 * i64::from(reading);
                let late = if disturbed(reading) { 1_000_000 } else { 0 };
                if let Judgement::Follow(found) =
                    judge.take(&asked(nanos.cast_unsigned() + late, nanos))
                {
                    rate = Some(found);
                }
                reading += 1;
            }
            (rate, judge.refusal(), reading)
        };
        assert_eq!(run(|_| false), (Some(1 << 32), Refusal::Calibrating, 3));
        // The rates between a disturbed reading and its neighbours are both wrong.
        assert_eq!(
            run(|reading| reading == 1),
            (Some(1 << 32), Refusal::Calibrating, 5)
        );
        let (rate, refusal, readings) = run(|reading| reading % 2 == 1);
        assert_eq!(rate, None);
        assert!(
            matches!(refusal, Refusal::Unsteady { ppm } if ppm > 50_000),
            "{refusal:?}"
        );
        assert_eq!(readings, ATTEMPTS + 2);
    }

    /// A reading in which the thread was interrupted for `open` cycles, one for each nanosecond, before or after it
    /// read the clock.
    const fn interrupted(nanos: i64, open: u64, is_before: bool) -> Asked {
        let there = nanos.cast_unsigned();
        let (before, behind) = if is_before {
            (there - open, there)
        } else {
            (there, there + open)
        };
        Asked {
            taken: Sandwich {
                before,
                nanos,
                behind,
            },
            ..asked(0, 0)
        }
    }

    const MS: i64 = 1_000_000;

    /// A machine that interrupts nearly each reading for milliseconds.
    #[test]
    fn wide_readings_do_not_count() {
        if usable().is_err() {
            return;
        }
        let judge = Judge::new();
        let mut found = None;
        for round in 1..100 {
            let nanos = 20 * MS * round;
            // One in eight is narrow.
            let open = if round % 8 == 7 { 300 } else { 5_000_000 };
            if let Judgement::Follow(rate) = judge.take(&interrupted(nanos, open, round % 3 == 0)) {
                found = Some((rate, round));
                break;
            }
        }
        let (rate, round) = found.expect("there are narrow ones");
        assert_eq!(round, 23, "two periods between the first three narrow ones");
        assert!(rate.abs_diff(1 << 32) < (1 << 32) / 100_000, "{rate}");
    }

    #[test]
    fn a_clock_that_is_never_read_narrowly_is_refused_while_it_is_measured() {
        if usable().is_err() {
            return;
        }
        let judge = Judge::new();
        let mut readings = 0;
        let refused = loop {
            readings += 1;
            // As wide as what was between it and the start.
            let nanos = MS * 20 * (1 << (readings / 100));
            match judge.take(&interrupted(nanos, nanos.cast_unsigned() / 2, false)) {
                Judgement::GoOn | Judgement::Begin => {}
                other => break other,
            }
        };
        assert_eq!(refused, Judgement::Refuse);
        assert!(matches!(judge.refusal(), Refusal::Slow { readings } if readings == WIDE));
    }

    /// The kernel's clock was corrected at a rate beyond all steering, and then continues as before.
    #[test]
    fn a_counter_that_was_given_up_is_measured_again_within_80_s_at_the_latest() {
        let judge = settled();
        let mut now = 0;
        for wait in [10, 20, 40, 80, 80] {
            for _ in 0..STRIKES {
                let misfit = Asked {
                    is_misfit: true,
                    ..interrupted(now, 0, false)
                };
                judge.take(&misfit);
            }
            assert_eq!(judge.refusal(), Refusal::Drifted { times: STRIKES });
            now += wait * 1_000 * MS;
            assert_eq!(judge.take(&interrupted(now - 1, 0, false)), Judgement::GoOn);
            assert_eq!(judge.take(&interrupted(now, 0, false)), Judgement::Begin);
            assert_eq!(judge.refusal(), Refusal::Calibrating);
            now += 20 * MS;
            assert_eq!(judge.take(&interrupted(now, 0, false)), Judgement::GoOn);
            now += 20 * MS;
            let follow = Judgement::Follow(1 << 32);
            assert_eq!(judge.take(&interrupted(now, 0, false)), follow);
        }
    }

    #[test]
    fn what_the_kernel_says_of_the_counter_is_final() {
        let judge = settled();
        let refusal = Refusal::KernelUses("hpet".to_owned());
        *lock(&judge.calibration) = judge.refuse(refusal.clone(), sandwich(0, 0));
        let in_years = interrupted(i64::MAX / 2, 0, false);
        assert_eq!(judge.take(&in_years), Judgement::GoOn);
        assert_eq!(judge.refusal(), refusal);
    }

    fn settled() -> Judge {
        let judge = Judge::new();
        judge.settled.store(true, Ordering::Relaxed);
        *lock(&judge.calibration) = Calibration::Done;
        judge
    }

    #[test]
    fn a_counter_that_runs_off_is_given_up_and_not_at_once() {
        let judge = settled();
        let misfit = Asked {
            is_misfit: true,
            ..asked(0, 0)
        };
        for _ in 1..STRIKES {
            assert_eq!(judge.take(&misfit), Judgement::GoOn);
            assert_eq!(judge.take(&asked(0, 0)), Judgement::GoOn);
        }
        assert_eq!(judge.take(&misfit), Judgement::GiveUp);
        assert_eq!(judge.refusal(), Refusal::Drifted { times: STRIKES });
        assert_eq!(judge.take(&misfit), Judgement::GoOn, "it is given up");
    }

    #[test]
    fn a_clock_that_is_never_read_narrowly_is_not_followed() {
        let judge = settled();
        let wide = Asked {
            is_wide: true,
            ..asked(0, 0)
        };
        for _ in 1..WIDE {
            assert_eq!(judge.take(&wide), Judgement::GoOn);
        }
        assert_eq!(judge.take(&asked(0, 0)), Judgement::GoOn);
        for _ in 1..2 * WIDE {
            assert_eq!(judge.take(&wide), Judgement::GoOn, "it was not long");
        }
        let later = Asked {
            is_wide: true,
            ..interrupted(WIDE_FOR, 0, false)
        };
        assert_eq!(judge.take(&later), Judgement::GiveUp);
        let readings = 2 * WIDE;
        assert_eq!(judge.refusal(), Refusal::Slow { readings });
    }
}
