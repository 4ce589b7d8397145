//! Distributions of times, in nanoseconds.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that a histogram distinguishes from longer ones.
const LONGEST: Duration = Duration::from_secs(60);
/// The significant digits of a time that are kept.
const DIGITS: u8 = 3;

/// Returns an empty histogram for times up to a minute.
pub(crate) fn new() -> Histogram<u64> {
    let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
    Histogram::new_with_max(longest, DIGITS).expect("three digits and a minute are within bounds")
}

pub(crate) fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// Returns the time that `share` of all times stay below; `None` if there are too few times for one to be above.
pub(crate) fn quantile(histogram: &Histogram<u64>, share: f64) -> Option<u64> {
    let above = histogram.len() as f64 * (1.0 - share);
    // Half of two is one, whatever the type makes of 1 - 0.5.
    (above >= 0.999).then(|| histogram.value_at_quantile(share))
}

#[cfg(test)]
mod tests {
    use super::{new, quantile, record};
    use std::time::Duration;

    #[test]
    fn a_quantile_needs_something_above_it() {
        let mut histogram = new();
        assert_eq!(quantile(&histogram, 0.5), None);
        for micros in 1..=100 {
            record(&mut histogram, Duration::from_micros(micros));
        }
        let median = quantile(&histogram, 0.5).expect("fifty are above");
        assert!((50_000..=50_050).contains(&median), "{median}");
        assert!(quantile(&histogram, 0.99).is_some());
        assert_eq!(quantile(&histogram, 0.999), None);
    }

    #[test]
    fn what_is_too_long_counts_as_the_longest() {
        let mut histogram = new();
        record(&mut histogram, Duration::MAX);
        assert_eq!(histogram.len(), 1);
        assert!(histogram.max() >= 60_000_000_000);
    }
}
