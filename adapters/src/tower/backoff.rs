//! Growing pauses between retries, for the policies of tower's `Retry`.

use std::fmt;
use std::time::Duration;

use ::tower::retry::backoff::{Backoff, MakeBackoff};
use ::tower::util::rng::{HasherRng, Rng};
use tickless::time::{self, Sleep};

/// A maker of growing pauses, which makes a series for each request.
///
/// ```
/// use std::time::Duration;
/// use tickless_adapters::tower::ExponentialBackoffMaker;
/// use tower::retry::backoff::{Backoff, MakeBackoff};
///
/// let mut maker = ExponentialBackoffMaker::new(Duration::from_micros(50), Duration::from_secs(1), 0.5)?;
/// let mut pauses = maker.make_backoff();
/// futures::executor::block_on(pauses.next_backoff());
/// # Ok::<(), tickless_adapters::tower::InvalidBackoff>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExponentialBackoffMaker {
    min: Duration,
    max: Duration,
    jitter: f64,
}

impl ExponentialBackoffMaker {
    /// Makes a maker of series that begin with a pause of `min` and double the pause each time up to `max`. A random
    /// part of up to `jitter` times the pause is added, and the sum is at most `max`.
    ///
    /// Each series has random parts of its own. In tower, series of the same maker have equal random parts if the maker
    /// has one generator.
    ///
    /// # Errors
    ///
    /// [`InvalidBackoff`] if `max` is zero or less than `min`, or `jitter` is no number from 0 to 100.
    pub fn new(min: Duration, max: Duration, jitter: f64) -> Result<Self, InvalidBackoff> {
        if min > max {
            return Err(InvalidBackoff("maximum must not be less than minimum"));
        }
        if max.is_zero() {
            return Err(InvalidBackoff("maximum must be non-zero"));
        }
        if jitter.is_nan() {
            return Err(InvalidBackoff("jitter must not be NaN"));
        }
        if jitter < 0.0 {
            return Err(InvalidBackoff("jitter must not be negative"));
        }
        if jitter > 100.0 {
            return Err(InvalidBackoff("jitter must not be greater than 100"));
        }
        Ok(Self { min, max, jitter })
    }
}

impl MakeBackoff for ExponentialBackoffMaker {
    type Backoff = ExponentialBackoff;

    fn make_backoff(&mut self) -> ExponentialBackoff {
        ExponentialBackoff {
            next: self.min,
            max: self.max,
            jitter: self.jitter,
            generator: HasherRng::default(),
        }
    }
}

/// A series of growing pauses.
#[derive(Clone, Debug)]
pub struct ExponentialBackoff {
    next: Duration,
    max: Duration,
    jitter: f64,
    generator: HasherRng,
}

impl ExponentialBackoff {
    /// Returns the next pause of the series, with its random part.
    fn next_pause(&mut self) -> Duration {
        let base = self.next;
        self.next = base.saturating_mul(2).min(self.max);
        let factor = self.jitter * self.generator.next_f64();
        let added = Duration::try_from_secs_f64(base.as_secs_f64() * factor).unwrap_or(self.max);
        base.saturating_add(added).min(self.max)
    }
}

impl Backoff for ExponentialBackoff {
    type Future = Sleep;

    fn next_backoff(&mut self) -> Sleep {
        time::sleep(self.next_pause())
    }
}

/// An error of [`ExponentialBackoffMaker::new`]: the limits of the pauses are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidBackoff(&'static str);

impl fmt::Display for InvalidBackoff {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid backoff: {}", self.0)
    }
}

impl std::error::Error for InvalidBackoff {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::tower::retry::backoff::MakeBackoff;

    use super::ExponentialBackoffMaker;

    const MIN: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_millis(75);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut series = ExponentialBackoffMaker::new(MIN, MAX, 0.0)
            .unwrap()
            .make_backoff();
        let pauses: Vec<u128> = (0..5).map(|_| series.next_pause().as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 75, 75]);
        // However long a series is.
        assert!((0..10_000).all(|_| series.next_pause() == MAX));
    }

    #[test]
    fn two_series_of_a_maker_draw_different_pauses() {
        let mut maker = ExponentialBackoffMaker::new(MIN, Duration::from_secs(100), 1.0).unwrap();
        let first = maker.make_backoff().next_pause();
        assert!((0..20).any(|_| maker.make_backoff().next_pause() != first));
        assert!((0..20).all(|_| (MIN..=2 * MIN).contains(&maker.make_backoff().next_pause())));
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let refused = |min, max, jitter| {
            ExponentialBackoffMaker::new(min, max, jitter)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(MAX, MIN, 0.0).contains("less than minimum"));
        assert!(refused(Duration::ZERO, Duration::ZERO, 0.0).contains("non-zero"));
        assert!(refused(MIN, MAX, f64::NAN).contains("NaN"));
        assert!(refused(MIN, MAX, -0.5).contains("negative"));
        assert!(refused(MIN, MAX, 100.5).contains("100"));
        // The longest that is allowed does not overflow.
        let mut longest =
            ExponentialBackoffMaker::new(Duration::MAX, Duration::MAX, 100.0).unwrap();
        assert_eq!(longest.make_backoff().next_pause(), Duration::MAX);
    }
}
