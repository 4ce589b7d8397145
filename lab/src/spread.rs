//! A figure that was measured several times.

use serde::Serialize;

/// The median of some values, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// What comparing two figures says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The first one is less, by this factor of medians, and each of its values than each of the other.
    Less(f64),
    /// The other way around.
    More(f64),
    /// Some value of one lies among those of the other.
    NoDifference,
}

impl Spread {
    /// `None` for no value at all.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self {
            median: f64::midpoint(low, high),
            min,
            max,
        })
    }

    /// Whether it is less than `other`, whatever value is taken of either.
    pub(crate) fn compare(&self, other: &Self) -> Outcome {
        let ratio = |more: f64, less: f64| more / less.max(f64::MIN_POSITIVE);
        if self.max < other.min {
            Outcome::Less(ratio(other.median, self.median))
        } else if self.min > other.max {
            Outcome::More(ratio(self.median, other.median))
        } else {
            Outcome::NoDifference
        }
    }

    /// The same in another unit, or as people read it.
    pub(crate) fn show(&self, show: impl Fn(f64) -> String) -> String {
        let [median, min, max] = [self.median, self.min, self.max].map(show);
        if min == max {
            median
        } else {
            format!("{median} ({min} to {max})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Spread};

    fn spread<const N: usize>(values: [f64; N]) -> Spread {
        Spread::of(values).expect("there are some")
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
        let odd = spread([9.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 9.0));
        assert_eq!(spread([4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn figures_that_overlap_do_not_differ() {
        let (low, high) = (spread([1.0, 2.0]), spread([4.0, 5.0]));
        assert_eq!(low.compare(&high), Outcome::Less(3.0));
        assert_eq!(high.compare(&low), Outcome::More(3.0));
        assert_eq!(low.compare(&spread([2.0, 9.0])), Outcome::NoDifference);
        assert_eq!(low.compare(&low), Outcome::NoDifference);
    }

    #[test]
    fn a_single_value_has_no_spread_to_show() {
        let shown = |value: f64| format!("{value:.1}");
        assert_eq!(spread([1.0]).show(shown), "1.0");
        assert_eq!(spread([1.0, 2.0]).show(shown), "1.5 (1.0 to 2.0)");
    }
}
