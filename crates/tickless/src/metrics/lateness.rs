//! A histogram of lateness.

use std::time::Duration;

use crate::host::lateness::{BUCKETS, Counts, FIRST};

/// A histogram of how late timers fired, in buckets that end at 1.024 µs times powers of two; the last bucket has no
/// end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness(Counts);

impl Lateness {
    pub(super) const fn of(counts: Counts) -> Self {
        Self(counts)
    }

    /// Returns the number of timers in the histogram.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.buckets.iter().sum()
    }

    /// Returns the total lateness of all timers in the histogram; the sum wraps around after 584 years.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.sum)
    }

    /// Returns each bucket as a pair: the end of the bucket, which is the first lateness after it, and the number of
    /// timers in the bucket. The last bucket, for timers more than 17 s late, has the end `None`.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let counts = self.0.buckets.iter().enumerate();
        counts.map(|(index, count)| (end(index), *count))
    }

    /// Returns the end of the bucket of the timer at the share `quantile` of all timers, ordered by lateness: 0.5 is
    /// the median. The result is at most twice the lateness of that timer, but 1.024 µs at least; `None` if there is no
    /// timer, or if that timer is in the last bucket. A `quantile` below 0 counts as 0, and above 1 as 1.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let count = self.count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among more timers than a double tells apart is off by none that matters"
        )]
        let rank = ((quantile.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.buckets()
            .find(|(_, count)| {
                seen += count;
                seen >= rank
            })
            .and_then(|(end, _)| end)
    }

    /// Returns the histogram of the timers that were added since `earlier`, an older histogram of the same thread.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (new, old) = (&self.0, &earlier.0);
        Self(Counts {
            buckets: std::array::from_fn(|index| {
                new.buckets[index].saturating_sub(old.buckets[index])
            }),
            sum: new.sum.wrapping_sub(old.sum),
        })
    }

    /// Adds the timers of `other` to this histogram.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.buckets.iter_mut().zip(other.0.buckets) {
            *sum = sum.saturating_add(count);
        }
        self.0.sum = self.0.sum.wrapping_add(other.0.sum);
    }
}

/// Returns the end of a bucket, or `None` for the last bucket.
fn end(index: usize) -> Option<Duration> {
    (index < BUCKETS - 1).then(|| Duration::from_nanos(FIRST << index))
}
