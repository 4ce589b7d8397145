//! The figure of many short rounds, robust against disturbances.

use std::time::Instant;

/// A figure in nanoseconds: the value to use, and the spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sim) struct Figure {
    /// The median of the faster half of the rounds.
    pub(in crate::sim) value: f64,
    /// The median of the fastest quarter.
    pub(in crate::sim) low: f64,
    /// The median of the slower half.
    pub(in crate::sim) high: f64,
}

impl Figure {
    /// Computes the figure of rounds in nanoseconds; it is never negative.
    ///
    /// Each disturbance makes a round longer, so the figure is taken from the faster half, and the slower half shows
    /// the extent of disturbances. Returns `None` if there are no rounds.
    pub(in crate::sim) fn of(mut rounds: Vec<f64>) -> Option<Self> {
        rounds.retain(|round| round.is_finite());
        rounds.sort_by(f64::total_cmp);
        let at = |eighth: usize| {
            let place = (rounds.len() * eighth).div_ceil(8).max(1) - 1;
            Some(rounds.get(place)?.max(0.0))
        };
        Some(Self {
            value: at(2)?,
            low: at(1)?,
            high: at(6)?,
        })
    }

    /// Multiplies the figure by `factor`, for another unit or a share.
    pub(super) fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

/// Returns the nanoseconds for each of `operations`, which `body` executes.
pub(in crate::sim) fn each(operations: usize, body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        start.elapsed().as_nanos() as f64 / operations as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Figure;

    #[test]
    fn a_noisy_half_changes_the_spread_and_not_the_value() {
        let quiet: Vec<f64> = (0..8).map(|round| 10.0 + f64::from(round) / 10.0).collect();
        let mut noisy = quiet.clone();
        for round in &mut noisy[5..] {
            *round *= 50.0;
        }
        let (quiet, noisy) = (Figure::of(quiet).unwrap(), Figure::of(noisy).unwrap());
        assert!((quiet.value - 10.1).abs() < 1e-9);
        assert!((noisy.value - quiet.value).abs() < 1e-9);
        assert!((noisy.low - quiet.low).abs() < 1e-9);
        assert!(noisy.high > quiet.high * 10.0);
    }

    #[test]
    fn what_was_subtracted_too_much_is_nothing() {
        let figure = Figure::of(vec![-3.0, -1.0, 2.0, 4.0]).unwrap();
        assert!(figure.low == 0.0 && figure.value == 0.0 && figure.high >= figure.value);
        assert_eq!(Figure::of(vec![f64::NAN]), None);
    }
}
