//! The counter that drives the time of a machine: its description, and its value at a time.

use serde::{Deserialize, Serialize};
use tickless_conformance::random::Random;
use tickless_core::clock::{Counter, CounterId};
use tickless_core::time::convert::{Cycles, Kilohertz};
use toml::Spanned;

use crate::model::frequency;
use crate::model::input::{InputError, Source};
use crate::model::time::Picos;

/// The limit of steering, as in kernels (spec TIM-27).
pub(crate) const PPM_MAX: u32 = 500;
/// The frequencies that a counter may have, in kHz.
const KILOHERTZ: std::ops::RangeInclusive<u32> = 1_000..=10_000_000;
/// The widths that a counter may have, in bits: a narrower counter would wrap faster than CPUs sleep.
const BITS: std::ops::RangeInclusive<u32> = 24..=64;
/// The largest skew: copies that differ by more cannot serve as a clock.
const SKEW_MAX: Picos = Picos::from_micros(100);
/// The number that separates the random copies from other draws of the same seed.
const SALT: u64 = 0xC0C0_0A1D_5EED_0C10;

/// The description of a counter: its nominal behaviour, and its real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CounterModel {
    /// The nominal frequency.
    pub kilohertz: u32,
    /// The number of bits after which the counter wraps.
    pub bits: u32,
    /// The error of the real frequency, in parts per million; positive if the counter is faster. No CPU knows this
    /// error.
    pub error_ppm: i32,
    /// The largest lag of a CPU's copy. The lag of each copy is random.
    pub skew: Picos,
    /// The time at which the counter wraps; the start value is computed from it.
    pub wraps_at: Option<Picos>,
    /// True if the counter stops in deep idle states. Before the first CPU enters such a state, the host switches to
    /// [`STAND_IN`] for the rest of the run.
    pub stops_in_deep_idle: bool,
}

impl CounterModel {
    /// A counter with a period of one nanosecond and no error: the clock shows the true time.
    pub const IDEAL: Self = Self {
        kilohertz: 1_000_000,
        bits: 64,
        error_ppm: 0,
        skew: Picos::ZERO,
        wraps_at: None,
        stops_in_deep_idle: false,
    };

    /// Returns the core's description of the counter. A counter that replaces another one has another id.
    pub(super) const fn nominal(&self, id: CounterId) -> Counter {
        Counter {
            id,
            frequency: Kilohertz(self.kilohertz),
            bits: self.bits,
            can_inline: false,
        }
    }

    /// Returns the longest time between two values of the counter.
    pub(crate) const fn period(&self) -> Picos {
        // Rounds up.
        Picos(1_000_000_000_u64.div_ceil(self.kilohertz as u64))
    }
}

/// The replacement for a counter that stops: the slow one that all CPUs share, with 32 bits at 14.318 MHz.
pub const STAND_IN: CounterModel = CounterModel {
    kilohertz: 14_318,
    bits: 32,
    ..CounterModel::IDEAL
};

/// A counter that runs.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) model: CounterModel,
    /// Counts per picosecond, in `2^-64`.
    rate: u64,
    mask: u64,
    /// The counter's value at the beginning of the run, if it had always had its present rate.
    start: u64,
    /// The lag of each CPU's copy, in counts.
    lags: Vec<u64>,
}

impl Running {
    pub(super) fn new(model: CounterModel, cpus: usize, seed: u64) -> Self {
        let mask = u64::MAX >> (64 - model.bits);
        let mut running = Self {
            model,
            rate: Self::rate(&model),
            mask,
            start: 0,
            lags: Vec::new(),
        };
        if let Some(at) = model.wraps_at {
            running.start = 0_u64.wrapping_sub(running.counts(at)) & mask;
        }
        if model.skew > Picos::ZERO {
            let mut random = Random::new(seed ^ SALT);
            let most = running.counts(model.skew);
            let lag = |_| random.below(most + 1);
            running.lags = (0..cpus).map(lag).collect();
        }
        running
    }

    fn rate(model: &CounterModel) -> u64 {
        // Rounds up, so that whole periods are whole: what is too much is less than a count in five hours.
        let per_second = u128::from(model.kilohertz)
            * u128::from(1_000_000_u32.saturating_add_signed(model.error_ppm));
        let rate = (per_second << 64).div_ceil(1_000_000_000_000_000);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn counts(&self, time: Picos) -> u64 {
        let counts = (u128::from(time.0) * u128::from(self.rate)) >> 64;
        u64::try_from(counts).unwrap_or(u64::MAX)
    }

    /// Returns the value that `cpu` reads at `at`. The copy without a lag belongs to no CPU.
    #[inline]
    pub(super) fn read(&self, cpu: u32, at: Picos) -> Cycles {
        let lag = self.lags.get(cpu as usize).copied().unwrap_or(0);
        let counted = self.start.wrapping_add(self.counts(at)).wrapping_sub(lag);
        Cycles(counted & self.mask)
    }

    /// Returns the time at which the copy of `cpu` reads `cycles` or more: `now` at the earliest.
    pub(super) fn reaches(&self, cpu: u32, cycles: Cycles, now: Picos) -> Picos {
        let ahead = cycles.0.wrapping_sub(self.read(cpu, now).0) & self.mask;
        if ahead == 0 || ahead > self.mask / 2 {
            return now;
        }
        let counted = u128::from(self.counts(now)) + u128::from(ahead);
        // Rounds up: not before it counts that far.
        let at = (counted << 64).div_ceil(u128::from(self.rate.max(1)));
        u64::try_from(at).map_or(Picos::FOREVER, Picos).max(now)
    }

    /// Advances the counter by `time` in which no CPU reads it.
    pub(super) fn goes_on(&mut self, time: Picos) {
        self.start = self.start.wrapping_add(self.counts(time)) & self.mask;
    }
}

/// A counter as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCounter {
    frequency: Option<Spanned<String>>,
    bits: Option<Spanned<u32>>,
    error_ppm: Option<Spanned<i32>>,
    skew: Option<Spanned<String>>,
    wraps_at: Option<Spanned<String>>,
    #[serde(default)]
    stops_in_deep_idle: bool,
}

pub(crate) fn read(source: &Source<'_>, raw: &RawCounter) -> Result<CounterModel, InputError> {
    let ideal = CounterModel::IDEAL;
    let bits = match &raw.bits {
        Some(field) if !BITS.contains(field.get_ref()) => {
            let wrong = format!("no counter has {} bits", field.get_ref());
            let right = format!("{} to {}", BITS.start(), BITS.end());
            return Err(source.error(field.span(), wrong, right));
        }
        field => field.as_ref().map_or(ideal.bits, |field| *field.get_ref()),
    };
    let error_ppm = raw.error_ppm.as_ref();
    let error_ppm = error_ppm.map_or(Ok(0), |field| ppm(source, field))?;
    let skew = match &raw.skew {
        None => Picos::ZERO,
        Some(field) => match source.time(field)? {
            skew if skew > SKEW_MAX => {
                let wrong = "copies that far apart are no clock";
                return Err(source.error(field.span(), wrong, format!("{SKEW_MAX} at most")));
            }
            skew => skew,
        },
    };
    let wraps_at = raw.wraps_at.as_ref().map(|field| source.time(field));
    Ok(CounterModel {
        kilohertz: match &raw.frequency {
            None => ideal.kilohertz,
            Some(field) => kilohertz(source, field)?,
        },
        bits,
        error_ppm,
        skew,
        wraps_at: wraps_at.transpose()?,
        stops_in_deep_idle: raw.stops_in_deep_idle,
    })
}

/// Reads the parts per million by which a rate differs from the nominal rate.
pub(crate) fn ppm(source: &Source<'_>, field: &Spanned<i32>) -> Result<i32, InputError> {
    let ppm = *field.get_ref();
    if ppm.unsigned_abs() <= PPM_MAX {
        return Ok(ppm);
    }
    let wrong = format!("{ppm} ppm is more than a clock is steered");
    let right = format!("-{PPM_MAX} to {PPM_MAX}");
    Err(source.error(field.span(), wrong, right))
}

/// Reads a frequency, for example `14.318 MHz`, in whole kilohertz.
fn kilohertz(source: &Source<'_>, field: &Spanned<String>) -> Result<u32, InputError> {
    let text = field.get_ref();
    let hertz = frequency::parse(text).filter(|hertz| hertz.is_multiple_of(1_000));
    let kilohertz = hertz.and_then(|hertz| u32::try_from(hertz / 1_000).ok());
    let kilohertz = kilohertz.ok_or_else(|| {
        let wrong = format!("\"{text}\" is not a frequency in whole kilohertz");
        let right = "write a number and a unit, kHz, MHz or GHz, such as \"14.318 MHz\"";
        source.error(field.span(), wrong, right)
    })?;
    if KILOHERTZ.contains(&kilohertz) {
        return Ok(kilohertz);
    }
    let wrong = format!("no counter counts at {text}");
    Err(source.error(field.span(), wrong, "1 MHz to 10 GHz"))
}

#[cfg(test)]
mod tests {
    use tickless_core::time::convert::Cycles;

    use super::{CounterModel, Running, STAND_IN};
    use crate::model::time::Picos;

    #[test]
    fn the_ideal_counter_counts_whole_nanoseconds() {
        let counter = Running::new(CounterModel::IDEAL, 1, 1);
        for nanos in [0, 1, 999_999, 1_000_000_000, 15_000_000_000_000] {
            let read = |picos| counter.read(0, Picos(picos)).0;
            assert_eq!(read(nanos * 1_000), nanos);
            assert_eq!(read(nanos * 1_000 + 999), nanos);
        }
    }

    #[test]
    fn a_counter_wraps_when_it_is_told() {
        let wraps_at = Some(Picos::from_millis(3));
        let counter = Running::new(
            CounterModel {
                wraps_at,
                ..STAND_IN
            },
            1,
            1,
        );
        let read = |micros| counter.read(0, Picos::from_micros(micros)).0;
        assert!(read(2_999) > u64::from(u32::MAX) - 20 && read(3_001) < 20);
    }

    #[test]
    fn a_comparator_fires_when_its_copy_reads_what_it_was_told() {
        let model = CounterModel {
            kilohertz: 2_399_987,
            error_ppm: -250,
            skew: Picos::from_micros(2),
            ..CounterModel::IDEAL
        };
        let counter = Running::new(model, 8, 3);
        let now = Picos::from_millis(77);
        for cpu in 0..8 {
            let read = counter.read(cpu, now);
            assert_eq!(counter.reaches(cpu, read, now), now);
            assert_eq!(counter.reaches(cpu, Cycles(read.0 - 5), now), now);
            for ahead in [1, 1_000, 240_000_000_000] {
                let cycles = Cycles(read.0 + ahead);
                let at = counter.reaches(cpu, cycles, now);
                assert!(counter.read(cpu, at) >= cycles);
                assert!(counter.read(cpu, Picos(at.0 - 1)) < cycles);
            }
        }
    }

    #[test]
    fn a_counter_that_is_fast_counts_more_and_copies_are_behind() {
        let model = CounterModel {
            error_ppm: 100,
            skew: Picos::from_micros(1),
            ..CounterModel::IDEAL
        };
        let counter = Running::new(model, 64, 7);
        let second = Picos::from_millis(1_000);
        assert_eq!(counter.read(u32::MAX, second).0, 1_000_100_000);
        let behind = |cpu| 1_000_100_000 - counter.read(cpu, second).0;
        assert!((0..64).all(|cpu| behind(cpu) <= 1_001));
        assert!((0..64).any(|cpu| behind(cpu) > 500));
    }
}
