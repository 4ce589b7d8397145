//! The properties of a free-running counter, and the conversion factors that follow from them.

use core::fmt;

use super::CounterId;
use crate::time::convert::{Kilohertz, Rounding, Scale};

/// A free-running counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The identity of the counter.
    pub id: CounterId,
    /// The nominal frequency of the counter.
    pub frequency: Kilohertz,
    /// The number of bits that count before the counter wraps, 2 to 64.
    pub bits: u32,
    /// True if the host's inlined read returns the value of this counter. Only then may the fast path of a guarded
    /// clock be on while this counter drives the time (spec TIM-44).
    pub can_inline: bool,
}

/// The reasons why a counter cannot drive the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadCounter {
    /// The frequency of the counter is zero (B2).
    StandsStill,
    /// The width of the counter is not between 2 and 64 bits.
    Width {
        /// The width in bits.
        bits: u32,
    },
}

impl fmt::Display for BadCounter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandsStill => {
                formatter.write_str("a counter without a frequency drives no time")
            }
            Self::Width { bits } => write!(
                formatter,
                "no counter that counts in {bits} bits drives the time: 2 to 64"
            ),
        }
    }
}

impl core::error::Error for BadCounter {}

/// The range of a forward scale in seconds, if the counter is wide enough (spec TIM-12).
const RANGE_SECONDS: u64 = 600;
/// The percentage of its nominal value by which a factor may be steered (spec TIM-13).
const STEERED_PERCENT: u64 = 11;

impl Counter {
    /// Checks that the counter can drive the time.
    ///
    /// # Errors
    ///
    /// Returns the property that makes the counter unusable.
    pub const fn check(&self) -> Result<(), BadCounter> {
        if self.frequency.0 == 0 {
            return Err(BadCounter::StandsStill);
        }
        if self.bits < 2 || self.bits > 64 {
            return Err(BadCounter::Width { bits: self.bits });
        }
        Ok(())
    }

    /// Returns the largest value that the counter shows.
    #[must_use]
    pub const fn mask(&self) -> u64 {
        if self.bits >= 64 {
            u64::MAX
        } else {
            (1 << self.bits) - 1
        }
    }

    /// Returns the forward scale for a range of ten minutes, or until the counter wraps if that is shorter (spec
    /// TIM-12).
    pub(super) const fn scale(&self) -> Scale {
        let hertz = self.frequency.0 as u64 * 1000;
        let seconds = self.mask() / hertz;
        let seconds = if seconds == 0 {
            1
        } else if seconds > RANGE_SECONDS && self.bits > 32 {
            RANGE_SECONDS
        } else {
            seconds
        };
        // In kilohertz and nanoseconds per millisecond the range counts in thousandths (spec CPL-1).
        let scale = Scale::for_range(
            self.frequency.0,
            1_000_000,
            seconds.saturating_mul(1000),
            Rounding::Nearest,
        );
        // Room for steering (spec TIM-13).
        let mut mult = scale.mult();
        let mut shift = scale.shift();
        while mult as u64 + headroom(mult) > u32::MAX as u64 && shift > 0 {
            mult /= 2;
            shift -= 1;
        }
        Scale::from_parts(mult, shift)
    }
}

/// Returns the amount by which a factor may be steered up or down (spec TIM-13), rounded down.
pub(super) const fn headroom(mult: u32) -> u64 {
    mult as u64 * STEERED_PERCENT / 100
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn counter(khz: u32, bits: u32) -> Counter {
        Counter {
            id: CounterId(1),
            frequency: Kilohertz(khz),
            bits,
            can_inline: false,
        }
    }

    /// TIM-11 to TIM-13: the factor is as precise as the range of ten minutes and the headroom permit.
    #[test]
    fn the_forward_scale_reaches_its_range_steered_or_not() {
        for (khz, bits) in [
            (2_000_000, 64),
            (2_500_000, 64),
            (24_000, 56),
            (14_318, 32),
            (3_579, 24),
            (1, 64),
        ] {
            let counter = counter(khz, bits);
            let scale = counter.scale();
            let steered = u64::from(scale.mult()) + headroom(scale.mult());
            assert!(steered <= u64::from(u32::MAX), "{khz} kHz");
            let wraps_after = counter.mask() / (u64::from(khz) * 1000);
            let range = wraps_after.clamp(1, 600) * u64::from(khz) * 1000;
            assert!(
                u128::from(range) * u128::from(steered) <= u128::from(u64::MAX),
                "{khz} kHz"
            );
            // To a millionth.
            let exact = (1_000_000_u128 << scale.shift()) / u128::from(khz);
            assert!(
                u128::from(scale.mult()).abs_diff(exact) <= exact / 1_000_000 + 1,
                "{khz} kHz"
            );
        }
    }

    /// B2.
    #[test]
    fn b2_a_counter_without_a_frequency_is_refused() {
        assert_eq!(counter(0, 64).check(), Err(BadCounter::StandsStill));
        assert_eq!(counter(1, 65).check(), Err(BadCounter::Width { bits: 65 }));
        assert_eq!(counter(1, 1).check(), Err(BadCounter::Width { bits: 1 }));
        assert_eq!(counter(1, 2).check(), Ok(()));
    }
}
