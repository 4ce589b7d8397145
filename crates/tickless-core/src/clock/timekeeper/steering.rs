//! The steered duration of an interval, from the tick, the frequency and the offset that is being slewed.
//!
//! - *Tick*: the coarse correction, by 10 % at most, for counters whose real frequency differs much from the nominal
//!   one.
//! - *Frequency*: the correction of the oscillator's error, by 500 ppm at most (spec TIM-27).
//! - *Slew*: an offset that the clock gains gradually. Each second a sixteenth of the remaining offset, 500 µs at most,
//!   is spread over the following intervals. So the clock approaches the right time exponentially and never jumps
//!   (Mills, RFC 1589: the phase-locked loop's adjustment at each second).
//!
//! The sum of the three is less than the 11 % by which a factor can be steered (spec TIM-13).

use super::accumulate::FINE;
use crate::time::{NANOS_PER_SEC, Offset, Span};

/// The largest steering of the frequency, in parts per billion (spec TIM-27).
pub(super) const FREQUENCY_MAX: i32 = 500_000;
/// The largest steering of the tick, in percent (spec TIM-27).
const TICK_PERCENT: u64 = 10;
/// The most nanoseconds that a slew gains in a second: 500 ppm, equal to the largest steering of the frequency.
const SLEW_RATE_MAX: i64 = 500_000;
/// The part of an offset that is worked off in a second, as a power of two: a sixteenth.
const SLEW_SHIFT: u32 = 4;
/// The largest offset that is slewed; for a larger offset the host sets the clock.
const SLEW_MAX: i64 = NANOS_PER_SEC / 2;

/// The steering that was requested for the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steering {
    /// The requested tick, without steering.
    tick: Span,
    /// The steered tick.
    steered_tick: Span,
    parts_per_billion: i32,
    /// The length of an interval by the counter's nominal frequency, in `2^-32` ns.
    nominal: i64,
    /// The length of an interval by the steered tick and the frequency, in `2^-32` ns.
    steered: i64,
    /// The rest of the offset, and the part of the offset that each interval gains now, in `2^-32` ns.
    left: i64,
    share: i64,
    /// The number of intervals until the next share is computed.
    until_share: u64,
}

impl Steering {
    /// Makes the steering of a clock whose ticks last `tick`.
    pub(super) const fn new(tick: Span) -> Self {
        Self {
            tick,
            steered_tick: tick,
            parts_per_billion: 0,
            nominal: 0,
            steered: 0,
            left: 0,
            share: 0,
            until_share: 0,
        }
    }

    /// Sets the length of an interval to `interval` cycles of a counter of `kilohertz`.
    pub(super) fn install(&mut self, interval: u64, kilohertz: u32) {
        // Rounds down, by 2^-32 ns.
        let nominal = ((u128::from(interval) * 1_000_000) << FINE) / u128::from(kilohertz.max(1));
        self.nominal = i64::try_from(nominal).unwrap_or(i64::MAX);
        self.compute();
        self.compute_share();
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

    /// Sets the offset to work off, clamped to its limits. It replaces the rest of an earlier offset.
    pub(super) fn set_slew(&mut self, offset: Offset) {
        self.left = offset.as_nanos().clamp(-SLEW_MAX, SLEW_MAX) << FINE;
        self.compute_share();
    }

    /// Returns the rest of the offset, rounded to the nearest nanosecond.
    pub(super) const fn left(&self) -> Offset {
        Offset::from_nanos((self.left + (1 << (FINE - 1))) >> FINE)
    }

    /// Returns the steered frequency, in parts per billion.
    pub(super) const fn frequency(&self) -> i32 {
        self.parts_per_billion
    }

    /// Returns the requested tick, without steering.
    pub(super) const fn nominal_tick(&self) -> Span {
        self.tick
    }

    /// Returns true if the clock should run at another rate than the nominal rate of its counter.
    pub(super) const fn is_steered(&self) -> bool {
        self.parts_per_billion != 0
            || self.steered_tick.as_nanos() != self.tick.as_nanos()
            || self.share != 0
    }

    /// Returns the steered tick.
    pub(super) const fn steered_tick(&self) -> Span {
        self.steered_tick
    }

    /// Returns true if an offset is being worked off.
    pub(super) const fn is_slewing(&self) -> bool {
        self.share != 0
    }

    /// Returns the length that an interval should have, in `2^-32` ns.
    pub(super) const fn wanted(&self) -> i64 {
        self.steered + self.share
    }

    /// Records that `intervals` intervals are over, each of which gained its share of the offset.
    pub(super) fn passed(&mut self, intervals: u64) {
        if self.share == 0 {
            return;
        }
        // What no CPU looked at for long has gained more than was left: the other sign is worked off then.
        let gained = i128::from(self.share) * i128::from(intervals);
        let left = i128::from(self.left) - gained;
        self.left = i64::try_from(left.clamp(SLEWED_MIN, SLEWED_MAX)).unwrap_or(0);
        self.until_share = self.until_share.saturating_sub(intervals);
        if self.until_share == 0 {
            self.compute_share();
        }
    }

    fn compute(&mut self) {
        let by_tick = i128::from(self.nominal) * i128::from(self.steered_tick.as_nanos())
            / i128::from(self.tick.as_nanos().max(1));
        // Rounds towards zero, by 2^-32 ns.
        let by_frequency = by_tick * i128::from(self.parts_per_billion) / 1_000_000_000;
        self.steered = i64::try_from(by_tick + by_frequency).unwrap_or(i64::MAX);
    }

    fn compute_share(&mut self) {
        let second = (i128::from(NANOS_PER_SEC) << FINE) / i128::from(self.nominal.max(1));
        let intervals = i64::try_from(second).unwrap_or(i64::MAX).max(1);
        self.until_share = intervals.unsigned_abs();
        let fastest = SLEW_RATE_MAX << FINE;
        let part = (self.left >> SLEW_SHIFT).clamp(-fastest, fastest);
        // The last nanosecond goes at once, and what is less than that counts as nothing.
        let part = if self.left.abs() >> FINE <= 1 {
            self.left
        } else {
            part
        };
        self.share = part / intervals;
        if self.share == 0 {
            self.left = 0;
        }
    }
}

/// The largest rest of the offset, in `2^-32` ns, even after a long time without an update.
const SLEWED_MAX: i128 = (SLEW_MAX as i128) << FINE;
const SLEWED_MIN: i128 = -SLEWED_MAX;

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
        steering.set_tick(MILLI);
        steering.set_slew(Offset::from_nanos(i64::MIN));
        assert_eq!(steering.left().as_nanos(), -SLEW_MAX);
        assert_eq!(steering.wanted(), nominal - (500_i64 << FINE));
    }

    /// All limits together are within the headroom of a factor (TIM-13).
    #[test]
    fn all_limits_together_fit_into_the_headroom() {
        let mut steering = steering();
        steering.set_tick(Span::MAX);
        steering.set_frequency(i32::MAX);
        steering.set_slew(Offset::from_nanos(i64::MAX));
        assert!(steering.wanted() < (1_110_000_i64 << FINE));
        steering.set_tick(Span::ZERO);
        steering.set_frequency(i32::MIN);
        steering.set_slew(Offset::from_nanos(i64::MIN));
        assert!(steering.wanted() > (890_000_i64 << FINE));
    }

    #[test]
    fn a_slew_works_off_what_it_was_given_and_no_more() {
        let mut steering = steering();
        steering.set_slew(Offset::from_nanos(3_000_000));
        let nominal = 1_000_000_i64 << FINE;
        let mut gained = 0_i128;
        let mut seconds = 0;
        while steering.is_slewing() {
            let before = steering.left().as_nanos();
            for _ in 0..1_000 {
                gained += i128::from(steering.wanted() - nominal);
                steering.passed(1);
            }
            let after = steering.left().as_nanos();
            assert!((0..=before).contains(&after));
            seconds += 1;
            if before > 1_000 {
                let sixteenth = before / 16;
                assert!((before - after - sixteenth).abs() <= 2, "{before} {after}");
            }
        }
        let nanos = gained >> FINE;
        assert!((nanos - 3_000_000).abs() <= 1, "{nanos}");
        assert!((200..400).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_slew_that_no_cpu_looked_after_goes_back() {
        let mut steering = steering();
        steering.set_slew(Offset::from_nanos(16_000));
        // A minute at the share of the first second: 60 µs, where 16 µs were wanted.
        steering.passed(60_000);
        assert_eq!(steering.left().as_nanos(), -44_000);
        assert!(steering.wanted() < 1_000_000_i64 << FINE);
        steering.passed(u64::MAX);
        assert!(steering.left().as_nanos() <= SLEW_MAX);
    }
}
