//! All conversions from one unit of time to another.
//!
//! Counters count cycles, devices count ticks, and all other code counts nanoseconds. A [`Scale`] converts by one
//! multiplication and one shift, because a division by a frequency would cost more than the rest of a clock reading.
//!
//! # Rounding
//!
//! A reading of a clock rounds down: time that has not passed yet is not reported. A span for which a caller has to
//! wait rounds up, in the factor and in the result: **a wait is never shorter than requested** ([`Scale::wait`], and
//! its property test). A timer library that rounds down anywhere on this path can fire early.

use super::{Instant, Span};

/// Ticks of a clock event device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// Cycles of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycles(pub u64);

/// A frequency in kilohertz. The unit is not hertz, because 32 bits of kilohertz reach 4 THz (spec CPL-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kilohertz(pub u32);

impl Kilohertz {
    /// Returns the nanoseconds in which a counter of this frequency counts `cycles`, exactly and for any number of
    /// cycles, by a slow division in 128 bits. Rounds down. A frequency of zero counts as 1 kHz.
    #[must_use]
    pub const fn nanos_in(self, cycles: u128) -> u128 {
        let kilohertz = if self.0 == 0 { 1 } else { self.0 };
        cycles.saturating_mul(1_000_000) / kilohertz as u128
    }
}

/// The rounding of the factor of a [`Scale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// The factor is rounded to the nearest value, which gives the smallest error, in either direction.
    Nearest,
    /// The factor is rounded up, so that the result is never too small.
    Up,
}

/// A conversion factor as a multiplication and a shift: `result = (value * mult) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    mult: u32,
    shift: u32,
}

impl Scale {
    /// Returns the most precise scale from units of `1 / from` s to units of `1 / to` s that cannot overflow 64 bits
    /// for values up to `range` times `from` (spec TIM-11).
    ///
    /// `range` is in seconds if `from` and `to` are in hertz.
    ///
    /// # Panics
    ///
    /// When `from` is zero.
    #[must_use]
    pub const fn for_range(from: u32, to: u32, range: u64, rounding: Rounding) -> Self {
        assert!(from != 0, "a unit that does not pass cannot be converted");
        let high = range.saturating_mul(from as u64) >> 32;
        // Bits that the factor may have, so that the product stays below 2^64.
        let accuracy = 32 - (64 - high.leading_zeros());
        let mut shift = 32;
        loop {
            let numerator = (to as u64) << shift;
            let mult = match rounding {
                Rounding::Nearest => (numerator + (from as u64) / 2) / from as u64,
                Rounding::Up => numerator.div_ceil(from as u64),
            };
            if shift == 0 || mult >> accuracy == 0 {
                return Self {
                    mult: narrow(mult),
                    shift,
                };
            }
            shift -= 1;
        }
    }

    /// Makes the scale from its factor and its shift.
    ///
    /// # Panics
    ///
    /// When `shift` is above 32.
    #[must_use]
    pub const fn from_parts(mult: u32, shift: u32) -> Self {
        assert!(
            shift <= 32,
            "a shift beyond 32 leaves nothing of a 32-bit factor"
        );
        Self { mult, shift }
    }

    /// Returns the factor.
    #[inline]
    #[must_use]
    pub const fn mult(self) -> u32 {
        self.mult
    }

    /// Returns the shift.
    #[inline]
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.shift
    }

    /// Returns the scale with its factor changed by `parts_per_billion`, as steering does. Rounds towards zero.
    #[must_use]
    pub fn steered(self, parts_per_billion: i32) -> Self {
        let change = i64::from(self.mult) * i64::from(parts_per_billion) / 1_000_000_000;
        let mult = u32::try_from(i64::from(self.mult) + change).unwrap_or(self.mult);
        Self { mult, ..self }
    }

    /// Returns the nanoseconds in `cycles` plus `residue`, the fraction of a nanosecond left by an earlier conversion
    /// (scaled by `2^shift`). Rounds down (spec TIM-10, TIM-15).
    ///
    /// The product must fit into 64 bits, so the caller compares `cycles` with [`max_input`](Scale::max_input) first.
    #[inline]
    #[must_use]
    pub const fn cycles_to_nanos(self, cycles: Cycles, residue: u64) -> u64 {
        (cycles
            .0
            .wrapping_mul(self.mult as u64)
            .wrapping_add(residue))
            >> self.shift
    }

    /// Converts as [`cycles_to_nanos`](Scale::cycles_to_nanos) does, for any number of cycles, by 128-bit arithmetic.
    /// Saturates.
    #[must_use]
    pub const fn cycles_to_nanos_wide(self, cycles: Cycles, residue: u64) -> u64 {
        let nanos = (cycles.0 as u128 * self.mult as u128 + residue as u128) >> self.shift;
        if nanos > u64::MAX as u128 {
            u64::MAX
        } else {
            narrow_wide(nanos)
        }
    }

    /// Returns the largest input whose product leaves room for a residue of one unit below 2^63.
    #[inline]
    #[must_use]
    pub const fn max_input(self) -> u64 {
        // Half of what fits: the other half is for the residue, which is smaller than 2^(shift + 31).
        (u64::MAX / 2) / if self.mult == 0 { 1 } else { self.mult as u64 }
    }

    /// Returns the number of ticks that last at least `span`. Rounds up, and adds `in_progress`, which is 1 for a
    /// device whose present tick is partly over when it starts to count, and 0 for a device that starts a fresh tick.
    /// Saturates.
    #[inline]
    #[must_use]
    pub const fn wait(self, span: Span, in_progress: u64) -> Ticks {
        let product = span.as_nanos() as u128 * self.mult as u128;
        let ticks = product.div_ceil(1 << self.shift) + in_progress as u128;
        Ticks(if ticks > u64::MAX as u128 {
            u64::MAX
        } else {
            narrow_wide(ticks)
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "for_range chose a shift under which the factor fits"
)]
const fn narrow(value: u64) -> u32 {
    if value > u32::MAX as u64 {
        u32::MAX
    } else {
        value as u32
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the caller compared with u64::MAX"
)]
const fn narrow_wide(value: u128) -> u64 {
    value as u64
}

/// The conversion from nanoseconds to cycles of the counter that drives the time, for devices that compare with the
/// same counter (spec ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverse {
    mult: u32,
    shift: u32,
    max: Span,
}

impl Reverse {
    /// The range for which the shift is chosen, in milliseconds: one hour (spec CPL-1).
    const RANGE_MS: u64 = 3_600_000;
    const NANOS_PER_MILLI: u32 = 1_000_000;

    /// Computes the factors at the installation of a counter of `frequency` with `mask` (spec CPL-1 to CPL-3).
    ///
    /// # Panics
    ///
    /// When the frequency is zero.
    #[must_use]
    pub fn at_install(frequency: Kilohertz, mask: u64) -> Self {
        assert!(
            frequency.0 != 0,
            "a counter that stands still drives no time"
        );
        let scale = Scale::for_range(
            Self::NANOS_PER_MILLI,
            frequency.0,
            Self::RANGE_MS,
            Rounding::Nearest,
        );
        let mut reverse = Self {
            mult: scale.mult,
            shift: scale.shift,
            max: Span::ZERO,
        };
        reverse.max = reverse.range(mask);
        reverse
    }

    /// Computes the factors after the forward scale became `forward` (spec CPL-2).
    #[must_use]
    pub fn follow(self, forward: Scale, mask: u64) -> Self {
        let mult = (1_u128 << (forward.shift + self.shift))
            / if forward.mult == 0 {
                1
            } else {
                forward.mult as u128
            };
        let mult = if mult > u32::MAX as u128 {
            u32::MAX
        } else {
            narrow(narrow_wide(mult))
        };
        let mut reverse = Self { mult, ..self };
        reverse.max = reverse.range(mask);
        reverse
    }

    /// Makes the conversion from its published factors, with the range `max` in nanoseconds.
    #[cfg(feature = "kernel")]
    #[inline]
    pub(crate) const fn from_words((mult, shift): (u32, u32), max: u64) -> Self {
        Self {
            mult,
            shift,
            max: Span::from_nanos(max),
        }
    }

    /// Returns the longest span that can be converted. Its product fits into 64 bits, and its cycles are few enough
    /// that a less-or-equal comparison on a narrow counter does not treat them as a time in the past (spec CPL-2,
    /// CPL-10).
    fn range(self, mask: u64) -> Span {
        let mult = if self.mult == 0 { 1 } else { self.mult as u64 };
        // Rounds down, both; the last cycle is what the result is rounded up by.
        let by_product = u64::MAX / mult;
        let half = (mask / 2).saturating_sub(1);
        let by_wrap = (u128::from(half) << self.shift) / u128::from(mult);
        let by_wrap = u64::try_from(by_wrap).unwrap_or(u64::MAX);
        Span::from_nanos(by_product.min(by_wrap))
    }

    /// Returns the factor.
    #[must_use]
    pub const fn mult(self) -> u32 {
        self.mult
    }

    /// Returns the shift.
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.shift
    }

    /// Returns the longest span that can be converted.
    #[must_use]
    pub const fn max(self) -> Span {
        self.max
    }

    /// Returns the counter value at which the clock reaches `when`, if it showed `base` at `base_cycles` (spec CPL-4).
    ///
    /// For a `when` before `base` the result is `base_cycles`, which is in the past, so a less-or-equal comparator
    /// fires at once (spec CPL-6). A `when` more than [`max`](Reverse::max) after `base` is clamped: the device fires
    /// early and is programmed again. Inside the range the result is rounded up by one cycle, so that truncation does
    /// not make short timers early (spec CPL-9). The result is never 0, which devices interpret as "disarmed" (spec
    /// CPL-11).
    #[inline]
    #[must_use]
    pub const fn cycles_at(
        self,
        when: Instant,
        base: Instant,
        base_cycles: Cycles,
        mask: u64,
    ) -> Cycles {
        let span = when.saturating_since(base);
        let span = if span.as_nanos() > self.max.as_nanos() {
            self.max
        } else {
            span
        };
        let product = span.as_nanos() as u128 * self.mult as u128;
        let distance = narrow_wide(product >> self.shift);
        let exact = product & ((1 << self.shift) - 1) == 0;
        let cycles = base_cycles
            .0
            .wrapping_add(distance)
            .wrapping_add(!exact as u64)
            & mask;
        Cycles(if cycles == 0 { 1 } else { cycles })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// CPL-1.
    #[test]
    fn reverse_factors_at_install_are_those_of_the_specification() {
        // Spec.
        for (khz, shift, mult, max) in [
            (1_000_000, 21, 2_097_152, 8_796_093_022_207),
            (2_000_000, 20, 2_097_152, 8_796_093_022_207),
            (2_500_000, 20, 2_621_440, 7_036_874_417_766),
            (3_000_000, 20, 3_145_728, 5_864_062_014_805),
            (5_000_000, 19, 2_621_440, 7_036_874_417_766),
            (24_000, 27, 3_221_225, 5_726_623_900_444_u64),
        ] {
            let reverse = Reverse::at_install(Kilohertz(khz), u64::MAX);
            assert_eq!(
                (reverse.shift(), reverse.mult()),
                (shift, mult),
                "{khz} kHz"
            );
            assert_eq!(reverse.max().as_nanos(), max, "{khz} kHz");
        }
    }

    #[test]
    fn absolute_deadlines_convert_as_in_the_specification() {
        // Spec, a 2 GHz counter.
        let reverse = Reverse::at_install(Kilohertz(2_000_000), u64::MAX);
        let at = |nanos| {
            let base = Instant::from_nanos(500_000_000);
            reverse
                .cycles_at(
                    Instant::from_nanos(nanos),
                    base,
                    Cycles(1_000_000_000),
                    u64::MAX,
                )
                .0
        };
        assert_eq!(at(499_999_999), 1_000_000_000);
        assert_eq!(at(500_000_000), 1_000_000_000);
        assert_eq!(at(500_000_001), 1_000_000_002);
        assert_eq!(at(501_000_000), 1_002_000_000);
        assert_eq!(
            at(500_000_000 + 9_000_000_000_000),
            1_000_000_000 + 17_592_186_044_414
        );
    }

    /// CPL-2.
    #[test]
    fn steering_reaches_the_reverse_factor() {
        // Spec: a 2 GHz counter at +100 ppm. The last cycle is rounded up here, see CPL-9.
        let reverse = Reverse::at_install(Kilohertz(2_000_000), u64::MAX);
        let steered = reverse.follow(Scale::from_parts(8_387_769, 24), u64::MAX);
        assert_eq!(steered.mult(), 2_097_361);
        let second = Instant::from_nanos(1_000_000_000);
        assert_eq!(
            steered
                .cycles_at(second, Instant::ZERO, Cycles(0), u64::MAX)
                .0,
            2_000_199_318
        );
    }

    /// CPL-11.
    #[test]
    fn no_deadline_is_handed_out_as_zero_cycles() {
        let reverse = Reverse::at_install(Kilohertz(1_000_000), u64::MAX);
        assert_eq!(
            reverse.cycles_at(Instant::ZERO, Instant::ZERO, Cycles(0), u64::MAX),
            Cycles(1)
        );
    }

    #[test]
    fn a_following_scale_always_has_a_range() {
        // B1: the range is set with the factors, whatever they were before.
        let reverse = Reverse::at_install(Kilohertz(2_000_000), u64::MAX);
        assert!(!reverse.max().is_zero());
        let forward = Scale::from_parts(1 << 23, 24);
        let followed = reverse.follow(forward, u64::MAX);
        assert!(!followed.max().is_zero());
        assert_eq!(followed, followed.follow(forward, u64::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// T2, the never-early rule: the ticks of a wait last at least as long as the requested span, by exact
        /// arithmetic with the device's true frequency.
        #[test]
        fn a_wait_is_never_shorter_than_its_span(
            hertz in 1_u32..=4_000_000_000,
            nanos in 0_u64..=600_000_000_000,
        ) {
            let scale = Scale::for_range(1_000_000_000, hertz, 600, Rounding::Up);
            let ticks = scale.wait(Span::from_nanos(nanos), 0);
            let lasts = u128::from(ticks.0) * 1_000_000_000;
            prop_assert!(lasts >= u128::from(nanos) * u128::from(hertz));
        }

        /// A wait is longer than its span by at most the precision of the factor and one tick.
        #[test]
        fn a_wait_is_hardly_longer_than_its_span(
            hertz in 1_000_000_u32..=4_000_000_000,
            nanos in 0_u64..=600_000_000_000,
        ) {
            let scale = Scale::for_range(1_000_000_000, hertz, 600, Rounding::Up);
            let ticks = u128::from(scale.wait(Span::from_nanos(nanos), 0).0);
            let exact = u128::from(nanos) * u128::from(hertz) / 1_000_000_000;
            prop_assert!(ticks <= exact + exact / 100_000 + 2);
        }

        /// TIM-11: no value inside the range overflows.
        #[test]
        fn no_value_inside_the_range_overflows(
            from in 1_000_u32..=u32::MAX,
            to in 1_u32..=u32::MAX,
            range in 1_u64..=3600,
        ) {
            let scale = Scale::for_range(from, to, range, Rounding::Nearest);
            let largest = u64::from(from).saturating_mul(range);
            prop_assert!(u128::from(largest) * u128::from(scale.mult()) <= u128::from(u64::MAX));
        }

        /// CPL-14: the reverse conversion followed by the forward conversion returns the original value, within one
        /// cycle and the precision of the factor. The reverse conversion is monotone.
        #[test]
        fn reverse_undoes_forward(
            khz in 1_000_u32..=4_000_000,
            parts_per_billion in -500_000_i32..=500_000,
            near in 0_i64..=1_000_000_000,
            further in 0_i64..=1_000_000_000,
        ) {
            let forward = Scale::for_range(khz, 1_000_000, 600_000, Rounding::Nearest)
                .steered(parts_per_billion);
            let reverse = Reverse::at_install(Kilohertz(khz), u64::MAX).follow(forward, u64::MAX);
            let at = |nanos| reverse.cycles_at(Instant::from_nanos(nanos), Instant::ZERO, Cycles(0), u64::MAX);
            let cycles = at(near);
            let back = i128::from(forward.cycles_to_nanos_wide(cycles, 0));
            let cycle = 1_000_000 / i128::from(khz) + 1;
            let precision = i128::from(near) / (i128::from(reverse.mult()).min(1 << 20)) + 1;
            prop_assert!((back - i128::from(near)).abs() <= cycle + precision, "{back} for {near}");
            prop_assert!(at(near + further) >= cycles);
        }
    }
}
