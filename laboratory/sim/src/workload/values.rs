//! The values in the fields of workloads, and the random values that are chosen from them.

use serde::Serialize;
use tickless_conformance::random::Random;

use crate::model::time::Picos;

/// A range of times, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The smallest value.
    pub low: Picos,
    /// The largest value.
    pub high: Picos,
}

/// A clock that may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WallClock {
    /// The clock of the time of day.
    Realtime,
    /// The monotonic clock plus the time of suspends.
    Boottime,
    /// The clock of the International Atomic Time.
    Tai,
}

impl WallClock {
    /// All clocks that may be set.
    pub const ALL: [Self; 3] = [Self::Realtime, Self::Boottime, Self::Tai];

    /// Returns the name of the clock.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::Boottime => "boottime",
            Self::Tai => "tai",
        }
    }
}

/// Chooses a random time from `range`: each octave has the same chance, and within an octave each value.
pub(crate) fn log_uniform(random: &mut Random, range: Range) -> Picos {
    let (low, high) = (range.low.0.max(1), range.high.0.max(range.low.0).max(1));
    let octaves = u64::from((high / low).ilog2()) + 1;
    let from = low << random.below(octaves);
    let to = from.saturating_mul(2).min(high + 1).max(from + 1);
    Picos(from + random.below(to - from))
}

/// Chooses a random time around `mean`, from zero to twice `mean`.
pub(crate) fn around(random: &mut Random, mean: Picos) -> Picos {
    Picos(random.below(mean.0.saturating_mul(2).max(1)))
}

#[cfg(test)]
mod tests {
    use super::{Range, log_uniform};
    use crate::model::time::Picos;
    use tickless_conformance::random::Random;

    #[test]
    fn octaves_are_equally_likely_and_the_range_is_kept() {
        let mut random = Random::new(1);
        let range = Range {
            low: Picos(1_000),
            high: Picos(64_000),
        };
        let drawn: Vec<Picos> = (0..10_000)
            .map(|_| log_uniform(&mut random, range))
            .collect();
        assert!(
            drawn
                .iter()
                .all(|one| *one >= range.low && *one <= range.high)
        );
        let below = drawn.iter().filter(|one| one.0 < 8_000).count();
        // Three of the seven octaves, the last of which is one number.
        assert!((4_000..4_600).contains(&below), "{below}");
    }
}
