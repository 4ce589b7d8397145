//! A figure that was measured several times.

/// The median of some values, and the distance between the smallest and the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The number of rounds that gave a value.
    pub(crate) rounds: usize,
}

/// The number of rounds that each of two figures needs for a verdict. With two rounds, both values of a figure lie on
/// one side of the other's by chance once in three times; with three rounds, once in ten.
pub(crate) const ROUNDS_MIN: usize = 3;
/// The ratio of two medians below which the two figures read the same.
const RATIO_MIN: f64 = 1.005;

/// The result of comparing two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Each value of the first figure is less than each value of the second.
    Less,
    /// Each value of the first figure is more than each value of the second.
    More,
    /// The values of the two figures overlap, or their medians read the same.
    NoDifference,
    /// One of the two figures has fewer than [`ROUNDS_MIN`] values.
    TooFew,
}

impl Spread {
    /// Returns the spread of the values; `None` if no value is given.
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
            rounds: values.len(),
        })
    }

    /// Returns half of the distance between the smallest and the largest value, as a share of the median; `None` for
    /// fewer than [`ROUNDS_MIN`] rounds.
    pub(crate) fn half_apart(&self) -> Option<f64> {
        let share = (self.max - self.min) / 2.0 / self.median;
        (self.rounds >= ROUNDS_MIN && share.is_finite()).then_some(share)
    }

    /// Compares the values of two figures. One figure is less only if each of its values is less than each value of the
    /// other.
    pub(crate) fn compare(&self, other: &Self) -> Outcome {
        let ratio = |more: f64, less: f64| more / less.max(f64::MIN_POSITIVE);
        let (less, more) = (
            ratio(other.median, self.median),
            ratio(self.median, other.median),
        );
        if self.rounds.min(other.rounds) < ROUNDS_MIN {
            Outcome::TooFew
        } else if self.max < other.min && less >= RATIO_MIN {
            Outcome::Less
        } else if self.min > other.max && more >= RATIO_MIN {
            Outcome::More
        } else {
            Outcome::NoDifference
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
        let (low, high) = (spread([1.0, 1.5, 2.0]), spread([4.0, 4.5, 5.0]));
        assert_eq!(low.compare(&high), Outcome::Less);
        assert_eq!(high.compare(&low), Outcome::More);
        assert_eq!(low.compare(&spread([2.0, 3.0, 9.0])), Outcome::NoDifference);
        assert_eq!(low.compare(&low), Outcome::NoDifference);
    }

    #[test]
    fn fewer_than_three_rounds_on_either_side_give_no_verdict() {
        let (few, enough) = (spread([1.0, 2.0]), spread([4.0, 5.0, 6.0]));
        assert_eq!(few.compare(&enough), Outcome::TooFew);
        assert_eq!(enough.compare(&few), Outcome::TooFew);
        assert_eq!(spread([1.0]).compare(&spread([9.0])), Outcome::TooFew);
        assert_eq!((few.half_apart(), enough.half_apart()), (None, Some(0.2)));
    }

    #[test]
    fn no_verdict_says_better_by_one_time() {
        let (low, high) = (spread([1.0, 1.0, 1.0]), spread([1.004, 1.004, 1.004]));
        assert_eq!(low.compare(&high), Outcome::NoDifference);
        assert_eq!(high.compare(&low), Outcome::NoDifference);
    }
}
