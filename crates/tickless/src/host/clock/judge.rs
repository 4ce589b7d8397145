//! Whether the time-stamp counter may be used, and how fast it is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tickless_core::clock::follow::{Asked, Sandwich};

use super::counter;
use super::refusal::{AGREEMENT_PPM, ATTEMPTS, Refusal};

/// The length of each of the two periods over which the rate is measured, in nanoseconds.
const CALIBRATION: u64 = 10_000_000;
/// How often the kernel's clock may be elsewhere than any steering explains.
const STRIKES: u64 = 8;
/// How many readings in a row may be too wide to say anything. A machine on which threads are interrupted all the time
/// has a narrow one now and then.
const WIDE: u64 = 1_000;

/// What is known of the counter, for the whole process.
#[derive(Debug)]
pub(super) struct Judge {
    strikes: AtomicU64,
    /// Wide readings in a row.
    wide: AtomicU64,
    /// Nothing is to be calibrated any more.
    settled: AtomicBool,
    calibration: Mutex<Calibration>,
}

/// What is to be done about the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Nothing.
    GoOn,
    /// Nothing: it is the first reading of the process.
    Begin,
    /// It may be used: it takes so many nanoseconds for a cycle, times 2^32.
    Follow(u64),
    /// It may not be used.
    Refuse,
    /// It may not be used any more.
    GiveUp,
}

/// A calibration that does not go on.
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
            strikes: AtomicU64::new(0),
            wide: AtomicU64::new(0),
            settled: AtomicBool::new(false),
            calibration: Mutex::new(Calibration::Start),
        }
    }

    /// Why the counter is not used.
    pub(super) fn refusal(&self) -> Refusal {
        match &*lock(&self.calibration) {
            Calibration::Refused(refusal) => refusal.clone(),
            _ => Refusal::Calibrating,
        }
    }

    /// Keeps other threads from calibrating until the result is dropped.
    pub(super) fn pause(&self) -> Paused<'_> {
        Paused {
            _calibration: lock(&self.calibration),
        }
    }

    /// Takes what a reading of the kernel's clock says of the counter.
    pub(super) fn take(&self, asked: &Asked) -> Judgement {
        // Relaxed: a hint; what is settled the lock protects.
        if !self.settled.load(Ordering::Relaxed) {
            return self.calibrate(asked.taken);
        }
        if asked.is_misfit {
            // Relaxed, here and below: counts.
            let times = self.strikes.fetch_add(1, Ordering::Relaxed) + 1;
            if times == STRIKES {
                return self.give_up(Refusal::Drifted { times });
            }
        }
        if asked.is_wide {
            let readings = self.wide.fetch_add(1, Ordering::Relaxed) + 1;
            if readings == WIDE {
                return self.give_up(Refusal::Slow { readings });
            }
        } else if self.wide.load(Ordering::Relaxed) != 0 {
            self.wide.store(0, Ordering::Relaxed);
        }
        Judgement::GoOn
    }

    fn give_up(&self, refusal: Refusal) -> Judgement {
        let mut calibration = lock(&self.calibration);
        if matches!(*calibration, Calibration::Done) {
            *calibration = Calibration::Refused(refusal);
            return Judgement::GiveUp;
        }
        Judgement::GoOn
    }

    /// Moves the calibration on by one reading.
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
                    self.refuse(refusal)
                }
            },
            Calibration::First { start, attempt } => match rate(*start, now) {
                Some(rate) => Calibration::Second {
                    start: now,
                    rate,
                    attempt: *attempt,
                },
                None => return judgement,
            },
            Calibration::Second {
                start,
                rate: first,
                attempt,
            } => match rate(*start, now) {
                Some(second) => {
                    let ppm = first.abs_diff(second) * 1_000_000 / (*first).max(1);
                    if ppm > AGREEMENT_PPM && *attempt == ATTEMPTS {
                        judgement = Judgement::Refuse;
                        self.refuse(Refusal::Unsteady { ppm })
                    } else if ppm > AGREEMENT_PPM {
                        // The thread that measured may have been interrupted between the two clocks.
                        Calibration::Second {
                            start: now,
                            rate: second,
                            attempt: attempt + 1,
                        }
                    } else {
                        // Relaxed: see `take`.
                        self.settled.store(true, Ordering::Relaxed);
                        judgement = Judgement::Follow(second);
                        Calibration::Done
                    }
                }
                None => return judgement,
            },
            Calibration::Done | Calibration::Refused(_) => return judgement,
        };
        *calibration = next;
        judgement
    }

    fn refuse(&self, refusal: Refusal) -> Calibration {
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

/// Nanoseconds for one cycle, times 2^32, if the period is long enough and the counter moved.
fn rate(start: Sandwich, end: Sandwich) -> Option<u64> {
    let nanos = u64::try_from(end.nanos.saturating_sub(start.nanos))
        .ok()
        .filter(|nanos| *nanos >= CALIBRATION)?;
    let cycles = end
        .behind
        .checked_sub(start.behind)
        .filter(|cycles| *cycles > 0)?;
    u64::try_from((u128::from(nanos) << 32) / u128::from(cycles)).ok()
}

/// Whether the counter can be used at all.
pub(super) fn usable() -> Result<(), Refusal> {
    if !counter::EXISTS {
        return Err(Refusal::NoCounter);
    }
    #[cfg(feature = "internals")]
    if super::kernel::emulation::is_on() {
        return Ok(());
    }
    if !counter::is_invariant() {
        return Err(Refusal::NotInvariant);
    }
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match std::fs::read_to_string(path) {
        Ok(source) if source.trim() == "tsc" => Ok(()),
        Ok(source) => Err(Refusal::KernelUses(source.trim().to_owned())),
        Err(_) => Err(Refusal::KernelDoesNotTell),
    }
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
        for _ in 1..WIDE {
            assert_eq!(judge.take(&wide), Judgement::GoOn);
        }
        assert_eq!(judge.take(&wide), Judgement::GiveUp);
        assert_eq!(judge.refusal(), Refusal::Slow { readings: WIDE });
    }
}
