//! The counts of a thread for one subject, which other threads read while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Figures that one thread writes and others read, in nanoseconds.
///
/// Every access is relaxed. Each figure has one writer, and a reader may see one figure a loop earlier or later than
/// another, which is exact enough. The final values are read after the writer was joined.
#[derive(Debug)]
pub(super) struct Counts {
    cycles: AtomicU64,
    early: AtomicU64,
    min: AtomicU64,
    last: AtomicU64,
    max: AtomicU64,
    sum: AtomicU64,
    /// The buckets, of a microsecond each.
    buckets: Box<[AtomicU64]>,
    beyond: AtomicU64,
    /// The numbers of the first cycles whose latency was beyond the last bucket.
    beyond_at: Box<[AtomicU64]>,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) cycles: u64,
    /// `None` before the first cycle.
    pub(super) min: Option<u64>,
    pub(super) last: u64,
    pub(super) max: u64,
    pub(super) sum: u64,
}

fn zeros(length: usize) -> Box<[AtomicU64]> {
    (0..length).map(|_| AtomicU64::new(0)).collect()
}

fn add(to: &AtomicU64, more: u64) {
    // One writer: no need for an atomic addition.
    to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Counts {
    pub(super) fn new(buckets: usize) -> Self {
        Self {
            cycles: AtomicU64::new(0),
            early: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            max: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            buckets: zeros(buckets),
            beyond: AtomicU64::new(0),
            beyond_at: zeros(buckets),
        }
    }

    /// Counts one cycle. Only one thread ever calls it.
    pub(super) fn note(&self, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.min.store(
            self.min.load(Ordering::Relaxed).min(nanos),
            Ordering::Relaxed,
        );
        self.max.store(
            self.max.load(Ordering::Relaxed).max(nanos),
            Ordering::Relaxed,
        );
        self.last.store(nanos, Ordering::Relaxed);
        add(&self.sum, nanos);
        let micros = usize::try_from(nanos / 1_000).unwrap_or(usize::MAX);
        if let Some(bucket) = self.buckets.get(micros) {
            add(bucket, 1);
        } else if !self.buckets.is_empty() {
            let before = usize::try_from(self.beyond.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
            if let Some(place) = self.beyond_at.get(before) {
                place.store(self.cycles.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            add(&self.beyond, 1);
        }
        add(&self.cycles, 1);
    }

    /// Counts a cycle that ended before its deadline, as a cycle without lateness.
    pub(super) fn note_early(&self) {
        add(&self.early, 1);
        self.note(Duration::ZERO);
    }

    pub(super) fn early(&self) -> u64 {
        self.early.load(Ordering::Relaxed)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let min = self.min.load(Ordering::Relaxed);
        Snapshot {
            cycles: self.cycles.load(Ordering::Relaxed),
            min: (min != u64::MAX).then_some(min),
            last: self.last.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }

    pub(super) fn bucket(&self, micros: usize) -> u64 {
        self.buckets[micros].load(Ordering::Relaxed)
    }

    /// Returns the number of cycles beyond the last bucket, and the numbers of the first of them.
    pub(super) fn beyond(&self) -> (u64, Vec<u64>) {
        let count = self.beyond.load(Ordering::Relaxed);
        let known = usize::try_from(count).unwrap_or(usize::MAX);
        let first = self.beyond_at.iter().take(known);
        (count, first.map(|at| at.load(Ordering::Relaxed)).collect())
    }
}

impl Snapshot {
    /// Returns the average in nanoseconds.
    pub(super) fn average(&self) -> Option<f64> {
        (self.cycles > 0).then(|| self.sum as f64 / self.cycles as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Snapshot};
    use std::time::Duration;

    #[test]
    fn extremes_and_buckets_are_kept() {
        let counts = Counts::new(10);
        assert_eq!(counts.snapshot(), Snapshot::default());
        for nanos in [3_500, 3_999, 12_000, 9_999, 10_000] {
            counts.note(Duration::from_nanos(nanos));
        }
        let snapshot = counts.snapshot();
        assert_eq!((snapshot.cycles, snapshot.min), (5, Some(3_500)));
        assert_eq!((snapshot.last, snapshot.max), (10_000, 12_000));
        assert_eq!(snapshot.average(), Some(7_899.6));
        assert_eq!((counts.bucket(3), counts.bucket(9)), (2, 1));
        assert_eq!(counts.beyond(), (2, vec![2, 4]));
    }

    #[test]
    fn without_buckets_nothing_is_beyond_them() {
        let counts = Counts::new(0);
        counts.note(Duration::from_secs(1));
        counts.note_early();
        assert_eq!(counts.beyond(), (0, Vec::new()));
        assert_eq!((counts.early(), counts.snapshot().cycles), (1, 2));
    }
}
