//! The steered duration of an interval, from the tick and the frequency.
//!
//! - *Tick*: the coarse correction, by 10 % at most, for counters whose real frequency differs much from the nominal
//!   one.
//! - *Frequency*: the correction of the oscillator's error, by 500 ppm at most (spec TIM-27).
//!
//! The sum of the two is less than the 11 % by which a factor can be steered (spec TIM-13).

use super::accumulate::FINE;
use crate::time::Span;

/// The largest steering of the frequency, in parts per billion (spec TIM-27).
pub(super) const FREQUENCY_MAX: i32 = 500_000;
/// The largest steering of the tick, in percent (spec TIM-27).
const TICK_PERCENT: u64 = 10;
/// The steering that was requested for the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steering {
    /// The requested tick, without steering.
    tick: Span,
    steered_tick: Span,
    parts_per_billion: i32,
    /// The length of an interval by the counter's nominal frequency, in `2^-32` ns.
    nominal: i64,
    /// The length of an interval by the steered tick and the frequency, in `2^-32` ns.
    steered: i64,
}

impl Steering {
    pub(super) const fn new(tick: Span) -> Self {
        Self {
            tick,
            steered_tick: tick,
            parts_per_billion: 0,
            nominal: 0,
            steered: 0,
        }
    }

    /// Sets the length of an interval to `interval` cycles of a counter of `kilohertz`.
    pub(super) fn install(&mut self, interval: u64, kilohertz: u32) {
        // Rounds down, by 2^-32 ns.
        let nominal = ((u128::from(interval) * 1_000_000) << FINE) / u128::from(kilohertz.max(1));
        self.nominal = i64::try_from(nominal).unwrap_or(i64::MAX);
        self.compute();
    }

    /// Sets the frequency, in parts per billion, clamped to its limits.
    pub(super) fn set_frequency(&mut self, parts_per_billion: i32) {
        self.parts_per_billion = parts_per_billion.clamp(-FREQUENCY_MAX, FREQUENCY_MAX);
        self.compute();
    }

    /// Sets the length of the tick, clamped to its limits.
    pub(super) fn set_tick(&mut self, tick: Span) {
        let tenth = self.tick.as_nanos() * TICK_PERCENT / 100;
        let [shortest, longest] = [self.tick.as_nanos() - tenth, self.tick.as_nanos() + tenth];
        self.steered_tick = Span::from_nanos(tick.as_nanos().clamp(shortest, longest));
        self.compute();
    }

    /// Returns the steered frequency, in parts per billion.
    pub(super) const fn frequency(&self) -> i32 {
        self.parts_per_billion
    }

    pub(super) const fn nominal_tick(&self) -> Span {
        self.tick
    }

    /// Returns true if the clock should run at another rate than the nominal rate of its counter.
    pub(super) const fn is_steered(&self) -> bool {
        self.parts_per_billion != 0 || self.steered_tick.as_nanos() != self.tick.as_nanos()
    }

    pub(super) const fn steered_tick(&self) -> Span {
        self.steered_tick
    }

    /// Returns the length that an interval should have, in `2^-32` ns.
    pub(super) const fn wanted(&self) -> i64 {
        self.steered
    }

    fn compute(&mut self) {
        let by_tick = i128::from(self.nominal) * i128::from(self.steered_tick.as_nanos())
            / i128::from(self.tick.as_nanos().max(1));
        // Rounds towards zero, by 2^-32 ns.
        let by_frequency = by_tick * i128::from(self.parts_per_billion) / 1_000_000_000;
        self.steered = i64::try_from(by_tick + by_frequency).unwrap_or(i64::MAX);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MILLI: Span = Span::from_millis(1);

    fn steering() -> Steering {
        let mut steering = Steering::new(MILLI);
        steering.install(2_000_000, 2_000_000);
        steering
    }

    /// TIM-27.
    #[test]
    fn what_is_asked_for_has_limits() {
        let nominal = 1_000_000_i64 << FINE;
        let mut steering = steering();
        assert_eq!(steering.wanted(), nominal);
        steering.set_frequency(i32::MAX);
        assert_eq!(steering.wanted() - nominal, nominal / 2_000);
        steering.set_frequency(i32::MIN);
        assert_eq!(steering.wanted() - nominal, -nominal / 2_000);
        steering.set_frequency(0);
        for (asked, given) in [
            (Span::ZERO, 900_000),
            (Span::MAX, 1_100_000),
            (Span::from_nanos(999_999), 999_999),
        ] {
            steering.set_tick(asked);
            assert_eq!(steering.wanted(), given << FINE);
        }
    }

    /// All limits together are within the headroom of a factor (TIM-13).
    #[test]
    fn all_limits_together_fit_into_the_headroom() {
        let mut steering = steering();
        steering.set_tick(Span::MAX);
        steering.set_frequency(i32::MAX);
        assert!(steering.wanted() < (1_110_000_i64 << FINE));
        steering.set_tick(Span::ZERO);
        steering.set_frequency(i32::MIN);
        assert!(steering.wanted() > (890_000_i64 << FINE));
    }
}
