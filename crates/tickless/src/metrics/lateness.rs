//! A histogram of lateness.

use std::time::Duration;

use crate::host::lateness::{BUCKETS, Counts, FIRST};

/// A histogram of how late timers fired, in buckets that end at 1.024 µs times the powers of two; the last has no end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness(Counts);

impl Lateness {
    pub(super) const fn of(counts: Counts) -> Self {
        Self(counts)
    }

    /// Returns the number of timers in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.buckets.iter().sum()
    }

    /// Returns the lateness of all its timers together; wraps around after 584 years of it.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.sum)
    }

    /// Returns each bucket: the lateness at which it ends, which is not in it, and the number of its timers. The end of
    /// the last, for all that is later than 17 s, is `None`.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let counts = self.0.buckets.iter().enumerate();
        counts.map(|(index, count)| (end(index), *count))
    }

    /// Returns the end of the bucket that holds the timer at the share `quantile` of all, in the order of lateness: 0.5
    /// for the median. At most twice the lateness of that timer, but 1.024 µs at least; `None` if there is no timer, or
    /// if that timer is in the last bucket. A `quantile` outside of 0 to 1 counts as the nearer of the two.
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

    /// Returns the timers that are in this histogram and were not in `earlier`, an older one of the same thread.
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

    /// Adds the timers of `other`.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.buckets.iter_mut().zip(other.0.buckets) {
            *sum = sum.saturating_add(count);
        }
        self.0.sum = self.0.sum.wrapping_add(other.0.sum);
    }
}

/// Returns the end of a bucket, `None` for the last.
fn end(index: usize) -> Option<Duration> {
    (index < BUCKETS - 1).then(|| Duration::from_nanos(FIRST << index))
}
