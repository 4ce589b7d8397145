//! The gaps in a polling loop: the time from each turn of the loop to the next.

use std::time::Duration;

/// The rate of the counter that the loop reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Counts in a millisecond: 1,000 for a counter of 1 MHz.
    pub(super) kilohertz: u64,
}

impl Rate {
    /// Makes the rate of a counter of `hertz`; 1 MHz at least, because microseconds must be distinguishable.
    pub(super) fn from_hertz(hertz: u64) -> Self {
        Self {
            kilohertz: (hertz / 1_000).max(1_000),
        }
    }

    pub(super) fn megahertz(self) -> u64 {
        self.kilohertz / 1_000
    }

    /// Converts to whole microseconds, rounded up and never zero, as oslat counts them.
    pub(super) fn micros(self, counts: u64) -> u64 {
        let micros = u128::from(counts) * 1_000;
        let micros = micros.div_ceil(u128::from(self.kilohertz));
        u64::try_from(micros).unwrap_or(u64::MAX).max(1)
    }

    pub(super) fn nanos(self, counts: u64) -> u64 {
        let nanos = u128::from(counts) * 1_000_000 / u128::from(self.kilohertz);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    pub(super) fn time(self, counts: u64) -> Duration {
        Duration::from_nanos(self.nanos(counts))
    }

    /// Returns the counts that last for `time`, rounded up.
    pub(super) fn counts(self, time: Duration) -> u64 {
        let counts = (time.as_nanos() * u128::from(self.kilohertz)).div_ceil(1_000_000);
        u64::try_from(counts).unwrap_or(u64::MAX)
    }
}

/// The gaps that one thread saw.
///
/// A gap is the time from one turn of the loop to the next, so it contains the turn itself. Bucket `n` counts the gaps
/// of more than `n - 1` and up to `n` microseconds. The first bucket also counts shorter gaps, the last one also longer
/// gaps.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    rate: Rate,
    /// The greatest gap in counts that is at most a microsecond long.
    short_counts: u64,
    /// The number of gaps of up to a microsecond. Nearly all gaps are so short, and the fast path counts no others.
    short: u64,
    /// The number of the first bucket, less one.
    bias: u64,
    /// The numbers of longer gaps by bucket, without the gaps in `short`.
    buckets: Box<[u64]>,
    min: u64,
    max: u64,
    /// The sum of all gaps in counts; and the sum of the gaps that are not in `short`, in whole microseconds, where
    /// each gap counts as the first bucket at least.
    total: u64,
    micros: u64,
    /// The sum of the gaps beyond the first bucket, in counts.
    stolen: u64,
}

impl Gaps {
    pub(super) fn new(rate: Rate, buckets: usize, bias: u64) -> Self {
        Self {
            rate,
            short_counts: rate.kilohertz / 1_000,
            short: 0,
            bias,
            buckets: vec![0; buckets.max(1)].into(),
            min: u64::MAX,
            max: 0,
            total: 0,
            micros: 0,
            stolen: 0,
        }
    }

    /// Counts one gap. Returns the gap's length in whole microseconds, if that is more than one.
    #[inline]
    pub(super) fn note(&mut self, counts: u64) -> Option<u64> {
        self.total += counts;
        if counts < self.min {
            self.min = counts;
        }
        if counts <= self.short_counts {
            if counts > self.max {
                self.max = counts;
            }
            self.short += 1;
            return None;
        }
        Some(self.note_long(counts))
    }

    #[cold]
    fn note_long(&mut self, counts: u64) -> u64 {
        self.max = self.max.max(counts);
        let micros = self.rate.micros(counts);
        self.micros = self.micros.saturating_add(micros.max(self.bias + 1));
        let place = micros.saturating_sub(self.bias + 1);
        if place > 0 {
            self.stolen += counts;
        }
        let last = self.buckets.len() - 1;
        self.buckets[usize::try_from(place).map_or(last, |place| place.min(last))] += 1;
        micros
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the buckets: the longest gap of the bucket in microseconds, and the number of gaps.
    pub(super) fn buckets(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(place, &count)| {
            let short = if place == 0 { self.short } else { 0 };
            (self.bias + 1 + place as u64, count + short)
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.short + self.buckets.iter().sum::<u64>()
    }

    /// Returns the shortest gap in counts; `None` before the first gap.
    pub(super) fn min(&self) -> Option<u64> {
        (self.min != u64::MAX).then_some(self.min)
    }

    /// Returns the longest gap in counts.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Returns the sum of all gaps in counts. The sum is the measured time, because gaps follow each other without a
    /// break.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the average of whole microseconds, as oslat computes it: a shorter gap counts as the first bucket.
    pub(super) fn average_micros(&self) -> f64 {
        let short = self.short.saturating_mul(self.bias + 1);
        let micros = short.saturating_add(self.micros);
        micros as f64 / self.count().max(1) as f64
    }

    /// Returns the true average, in nanoseconds.
    pub(super) fn average_nanos(&self) -> f64 {
        self.rate.nanos(self.total) as f64 / self.count().max(1) as f64
    }

    /// Returns the share of the time that passed in gaps beyond the first bucket.
    pub(super) fn stolen_share(&self) -> f64 {
        self.stolen as f64 / self.total.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{Gaps, Rate};
    use std::time::Duration;

    const RATE: Rate = Rate { kilohertz: 2_500 };

    #[test]
    fn counts_are_times_by_the_rate() {
        assert_eq!(Rate::from_hertz(2_596_992_000).megahertz(), 2_596);
        assert_eq!(RATE.nanos(5), 2_000);
        for (counts, micros) in [(0, 1), (1, 1), (2, 1), (3, 2), (5, 2), (6, 3)] {
            assert_eq!(RATE.micros(counts), micros, "{counts}");
        }
        assert_eq!(RATE.micros(u64::MAX), u64::MAX / 5 * 2);
        assert_eq!(RATE.counts(Duration::from_micros(1)), 3);
        assert_eq!(RATE.counts(Duration::MAX), u64::MAX);
        assert_eq!(RATE.time(2_500_000), Duration::from_secs(1));
    }

    #[test]
    fn every_gap_is_in_one_bucket() {
        let mut gaps = Gaps::new(Rate { kilohertz: 1_000 }, 4, 0);
        assert_eq!((gaps.count(), gaps.min(), gaps.max()), (0, None, 0));
        assert_eq!(gaps.note(0), None);
        assert_eq!(gaps.note(1), None);
        for counts in [2, 3, 4, 5, 1_000] {
            assert_eq!(gaps.note(counts), Some(counts));
        }
        let buckets: Vec<_> = gaps.buckets().collect();
        assert_eq!(buckets, [(1, 2), (2, 1), (3, 1), (4, 3)]);
        assert_eq!((gaps.count(), gaps.min(), gaps.max()), (7, Some(0), 1_000));
        assert_eq!(gaps.total(), 1_015);
        // A gap of no time counts as a microsecond.
        assert_eq!(gaps.average_micros(), 1_016.0 / 7.0);
        assert_eq!(gaps.average_nanos(), 1_015_000.0 / 7.0);
        assert_eq!(gaps.stolen_share(), 1_014.0 / 1_015.0);
    }

    #[test]
    fn a_bias_moves_the_buckets_and_what_is_shorter_counts_as_the_first_of_them() {
        let mut gaps = Gaps::new(Rate { kilohertz: 1_000 }, 3, 10);
        for counts in [1, 8, 11, 12, 13, 99] {
            let _same_as_without = gaps.note(counts);
        }
        let buckets: Vec<_> = gaps.buckets().collect();
        assert_eq!(buckets, [(11, 3), (12, 1), (13, 2)]);
        assert_eq!(gaps.average_micros(), 157.0 / 6.0);
        assert_eq!(gaps.stolen_share(), 124.0 / 144.0);
    }
}
