//! Distributions of times, in little memory and without floating point.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::model::time::Picos;

/// The number of buckets for each power of two: a value that is read from the distribution is wrong by an eighth at
/// most.
const PARTS: usize = 8;
const BUCKETS: usize = 64 * PARTS;

/// A distribution of times, in steps of an eighth; the extremes and the sum are exact.
#[derive(Clone, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    sum: u128,
    min: Picos,
    max: Picos,
    buckets: Box<[u64]>,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            min: Picos::FOREVER,
            max: Picos::ZERO,
            buckets: vec![0; BUCKETS].into(),
        }
    }
}

fn bucket(value: Picos) -> usize {
    let value = value.0;
    if value < PARTS as u64 {
        return usize::try_from(value).unwrap_or(0);
    }
    let power = value.ilog2();
    let part = (value >> (power - PARTS.ilog2())) % PARTS as u64;
    let part = usize::try_from(part).unwrap_or(0);
    (power - PARTS.ilog2() + 1) as usize * PARTS + part
}

/// Returns the largest value of a bucket.
fn top(bucket: usize) -> Picos {
    let (row, part) = (bucket / PARTS, bucket % PARTS);
    if row == 0 {
        return Picos(part as u64);
    }
    let end = (u128::from(PARTS as u64 + part as u64) + 1) << (row - 1);
    Picos(u64::try_from(end - 1).unwrap_or(u64::MAX))
}

impl Distribution {
    /// Adds a time.
    pub fn note(&mut self, value: Picos) {
        self.count += 1;
        self.sum += u128::from(value.0);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.buckets[bucket(value)] += 1;
    }

    /// Returns the number of times.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the smallest time; zero if there is none.
    #[must_use]
    pub const fn min(&self) -> Picos {
        if self.count == 0 {
            Picos::ZERO
        } else {
            self.min
        }
    }

    /// Returns the largest time; zero if there is none.
    #[must_use]
    pub const fn max(&self) -> Picos {
        self.max
    }

    /// Returns the mean, rounded down.
    #[must_use]
    pub fn mean(&self) -> Picos {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Picos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns every value that occurred, with its count, in rising order. The values are in steps of an eighth; the
    /// largest is exact.
    pub fn values(&self) -> impl Iterator<Item = (Picos, u64)> {
        let buckets = self.buckets.iter().enumerate();
        buckets
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (top(index).min(self.max), *count))
    }

    /// Returns the time that `permille` thousandths of all times do not exceed. The result is at most an eighth too
    /// large.
    #[must_use]
    pub fn percentile(&self, permille: u64) -> Picos {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1_000);
        let mut seen = 0_u128;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if *count > 0 && seen >= rank {
                return top(index).min(self.max).max(self.min());
            }
        }
        self.max
    }
}

impl fmt::Debug for Distribution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} x {} .. {} .. {}",
            self.count,
            self.min(),
            self.mean(),
            self.max
        )
    }
}

#[derive(Serialize)]
struct Summary {
    count: u64,
    min: Picos,
    mean: Picos,
    p50: Picos,
    p99: Picos,
    p999: Picos,
    max: Picos,
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let summary = Summary {
            count: self.count,
            min: self.min(),
            mean: self.mean(),
            p50: self.percentile(500),
            p99: self.percentile(990),
            p999: self.percentile(999),
            max: self.max,
        };
        summary.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Distribution, bucket, top};
    use crate::model::time::Picos;
    use tickless_conformance::random::Random;

    #[test]
    fn a_bucket_is_an_eighth_wide_at_most() {
        let mut random = Random::new(1);
        for shift in 0..64 {
            let value = random.bits() >> shift;
            let end = top(bucket(Picos(value))).0;
            assert!(end >= value && end - value <= value / 8, "{value} {end}");
        }
    }

    #[test]
    fn percentiles_are_read_off() {
        let mut times = Distribution::default();
        for value in 1..=1_000 {
            times.note(Picos(value));
        }
        assert_eq!((times.min(), times.max()), (Picos(1), Picos(1_000)));
        assert_eq!(times.mean(), Picos(500));
        let median = times.percentile(500).0;
        assert!((500..=563).contains(&median), "{median}");
        assert_eq!(times.percentile(1_000), Picos(1_000));
        assert_eq!(times.values().map(|(_, count)| count).sum::<u64>(), 1_000);
        assert!(times.values().is_sorted());
        assert_eq!(
            times.values().last().map(|(value, _)| value),
            Some(Picos(1_000))
        );
        assert_eq!(Distribution::default().percentile(500), Picos(0));
    }
}
