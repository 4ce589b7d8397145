//! Counters of late timers: for each range of lateness, the number of a thread's exact timers that fired so late.
//!
//! There is a bucket for each power of two of nanoseconds, so that counting a timer is one addition. Nothing is counted
//! unless the [switch](super::process::Host::set_counts_lateness) is on.
//!
//! # Ground rules
//!
//! The holder of the base lock writes; any thread reads, and may see one count of a timer before the other counts of
//! the same timer.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of buckets. The first bucket holds all latenesses below [`FIRST`], the last one all that fit no other
/// bucket.
pub(crate) const BUCKETS: usize = 26;

/// The upper end of the first bucket in nanoseconds, a power of two. Each other bucket reaches twice as far as the
/// bucket before it; the last but one ends at 17 s.
pub(crate) const FIRST: u64 = 1 << FIRST_BITS;

const FIRST_BITS: u32 = 10;

/// The counts of a base.
#[derive(Debug)]
pub(crate) struct Lateness {
    buckets: [AtomicU64; BUCKETS],
    /// The total lateness of all timers, in nanoseconds.
    sum: AtomicU64,
}

/// The values of [`Lateness`] at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) sum: u64,
}

impl Lateness {
    pub(crate) const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
        }
    }

    /// Counts a timer that fired `late` nanoseconds after its deadline. Called with the base locked.
    pub(crate) fn note(&self, late: u64) {
        add(&self.buckets[bucket(late)], 1);
        add(&self.sum, late);
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        // Relaxed, both: counts, each by itself.
        Counts {
            buckets: std::array::from_fn(|index| self.buckets[index].load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// Adds to a count whose writers exclude each other by the base lock.
fn add(count: &AtomicU64, value: u64) {
    // Relaxed, both: the base lock orders writers; readers want any value that was there.
    let sum = count.load(Ordering::Relaxed).wrapping_add(value);
    count.store(sum, Ordering::Relaxed);
}

/// Returns the bucket of a lateness in nanoseconds.
const fn bucket(late: u64) -> usize {
    // Bits that the number needs beyond those of the first bucket.
    let beyond = (u64::BITS - late.leading_zeros()).saturating_sub(FIRST_BITS) as usize;
    if beyond < BUCKETS {
        beyond
    } else {
        BUCKETS - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_at_powers_of_two() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(FIRST - 1), 0);
        assert_eq!(bucket(FIRST), 1);
        assert_eq!(bucket(2 * FIRST - 1), 1);
        assert_eq!(bucket(2 * FIRST), 2);
        let last = FIRST << (BUCKETS - 2);
        assert_eq!((bucket(last - 1), bucket(last)), (BUCKETS - 2, BUCKETS - 1));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn each_late_timer_is_in_one_bucket_and_in_the_sum() {
        let lateness = Lateness::new();
        for late in [0, 1_500, 1_700, 5_000_000] {
            lateness.note(late);
        }
        let counts = lateness.counts();
        assert_eq!(counts.sum, 5_003_200);
        assert_eq!(counts.buckets.iter().sum::<u64>(), 4);
        assert_eq!((counts.buckets[0], counts.buckets[1]), (1, 2));
    }
}
