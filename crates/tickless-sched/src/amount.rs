//! The quantities of the scheduler: weights, requests, and times on the clock of a run queue.

use core::fmt;
use core::num::NonZeroU32;

use tickless_core::time::Span;

/// A time on the clock of a run queue, in nanoseconds.
///
/// The clock counts the time that tasks received: it stops while [interrupts](crate::load::RunClock) run. Its origin
/// does not matter. The clocks of two run queues are independent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunTime(u64);

impl RunTime {
    /// The beginning of a clock.
    pub const ZERO: Self = Self(0);

    /// Makes a time from nanoseconds on the clock.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this one; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time later by `span`, at most the end of the clock, which is after 584 years.
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_nanos()))
    }
}

/// The error of a number outside of its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// The value that was given.
    pub given: u64,
    /// The smallest value that is accepted.
    pub least: u64,
    /// The largest value that is accepted.
    pub most: u64,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, least, most } = self;
        write!(formatter, "{given} is not between {least} and {most}")
    }
}

impl core::error::Error for OutOfBounds {}

const fn check(given: u64, least: u64, most: u64) -> Result<(), OutOfBounds> {
    if given < least || given > most {
        return Err(OutOfBounds { given, least, most });
    }
    Ok(())
}

/// The share of the CPU to which a task is entitled, relative to the weights of the other tasks.
///
/// A weight is between a thousandth of the [unit](Self::UNIT) and a thousand times the unit, so that no computation of
/// a run queue can overflow: a million tasks of the largest weight have 2^50 together.
///
/// ```
/// use tickless_sched::Weight;
///
/// assert_eq!(Weight::new(3 << 20)?, Weight::UNIT.times(3));
/// assert!(Weight::new(0).is_err());
/// assert_eq!(Weight::clamped(u64::MAX), Weight::MAX);
/// # Ok::<(), tickless_sched::OutOfBounds>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The weight of a task for which none was set: W0 of the specification, 2^20.
    pub const UNIT: Self = Self::clamped(1 << 20);
    /// The smallest weight, 2^10.
    pub const MIN: Self = Self::clamped(0);
    /// The largest weight, 2^30.
    pub const MAX: Self = Self::clamped(u64::MAX);

    const LEAST: u64 = 1 << 10;
    const MOST: u64 = 1 << 30;

    /// Makes a weight from parts of 2^20.
    ///
    /// # Errors
    ///
    /// Below [`MIN`](Self::MIN), 0 among others, or above [`MAX`](Self::MAX).
    pub const fn new(weight: u64) -> Result<Self, OutOfBounds> {
        match check(weight, Self::LEAST, Self::MOST) {
            Ok(()) => Ok(Self::clamped(weight)),
            Err(error) => Err(error),
        }
    }

    /// Makes the weight nearest to `weight`, in parts of 2^20: numbers outside of [`MIN`](Self::MIN) to
    /// [`MAX`](Self::MAX) become one of the two.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the largest weight fits")]
    pub const fn clamped(weight: u64) -> Self {
        let weight = if weight < Self::LEAST {
            Self::LEAST
        } else if weight > Self::MOST {
            Self::MOST
        } else {
            weight
        };
        match NonZeroU32::new(weight as u32) {
            Some(weight) => Self(weight),
            None => unreachable!(),
        }
    }

    /// Multiplies the weight. A product below [`MIN`](Self::MIN), with the factor 0, becomes the smallest weight; a
    /// product above [`MAX`](Self::MAX) becomes the largest.
    #[must_use]
    pub const fn times(self, factor: u32) -> Self {
        Self::clamped(self.get().saturating_mul(factor as u64))
    }

    /// Returns the value in parts of 2^20.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get() as u64
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::UNIT
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Weight({})", self.get())
    }
}

/// The time for which a task wants to run at once: the request of EEVDF.
///
/// A task with a short request gets an early deadline: it runs soon and for a short time. A task with a long request
/// runs late and for a long time. The share of the CPU is the same.
///
/// ```
/// use tickless_core::time::Span;
/// use tickless_sched::Request;
///
/// assert!(Request::new(Span::from_micros(200)).is_ok());
/// assert_eq!(Request::clamped(Span::from_secs(3_600)), Request::MAX);
/// assert_eq!(Request::clamped(Span::from_nanos(0)), Request::MIN);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(NonZeroU32);

impl Request {
    /// The request of a task for which none was set: 3 ms.
    pub const DEFAULT: Self = Self::clamped(Span::from_millis(3));
    /// The shortest request, 10 µs: no slice timer is started for a shorter time (TICK-15).
    pub const MIN: Self = Self::clamped(Span::from_nanos(0));
    /// The longest request, 100 ms: other tasks wait at most that long behind one that was served out of turn.
    pub const MAX: Self = Self::clamped(Span::from_secs(1));

    const LEAST: u64 = 10_000;
    const MOST: u64 = 100_000_000;

    /// Makes a request of this length.
    ///
    /// # Errors
    ///
    /// Shorter than [`MIN`](Self::MIN) or longer than [`MAX`](Self::MAX); the numbers are nanoseconds.
    pub const fn new(length: Span) -> Result<Self, OutOfBounds> {
        match check(length.as_nanos(), Self::LEAST, Self::MOST) {
            Ok(()) => Ok(Self::clamped(length)),
            Err(error) => Err(error),
        }
    }

    /// Makes the request whose length is nearest to `length`: lengths outside of [`MIN`](Self::MIN) to
    /// [`MAX`](Self::MAX) become one of the two.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the longest request fits")]
    pub const fn clamped(length: Span) -> Self {
        let length = length.as_nanos();
        let length = if length < Self::LEAST {
            Self::LEAST
        } else if length > Self::MOST {
            Self::MOST
        } else {
            length
        };
        match NonZeroU32::new(length as u32) {
            Some(length) => Self(length),
            None => unreachable!(),
        }
    }

    /// Returns the length.
    #[must_use]
    pub const fn length(self) -> Span {
        Span::from_nanos(self.nanos())
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0.get() as u64
    }
}

impl Default for Request {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Request({} ns)", self.nanos())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn weights_of_nothing_and_of_everything_are_refused() {
        for given in [0, 1, Weight::LEAST - 1, Weight::MOST + 1, u64::MAX] {
            let error = Weight::new(given).expect_err("out of bounds");
            assert_eq!(error.given, given);
            assert_eq!([error.least, error.most], [1 << 10, 1 << 30]);
        }
        assert_eq!(Weight::new(Weight::LEAST), Ok(Weight::MIN));
        assert_eq!(Weight::new(Weight::MOST), Ok(Weight::MAX));
        assert_eq!(Weight::clamped(0), Weight::MIN);
        assert_eq!(Weight::UNIT.times(0), Weight::MIN);
        assert_eq!(Weight::UNIT.times(u32::MAX), Weight::MAX);
    }

    #[test]
    fn requests_of_nothing_and_of_an_hour_are_refused() {
        for given in [
            Span::from_nanos(0),
            Span::from_nanos(9_999),
            Span::from_secs(3_600),
        ] {
            assert!(Request::new(given).is_err());
        }
        assert_eq!(Request::new(Span::from_micros(10)), Ok(Request::MIN));
        assert_eq!(Request::new(Span::from_millis(100)), Ok(Request::MAX));
    }

    #[test]
    fn a_run_clock_that_goes_back_is_taken_to_stand() {
        let earlier = RunTime::from_nanos(5);
        assert_eq!(
            earlier.saturating_since(RunTime::from_nanos(9)),
            Span::from_nanos(0)
        );
        assert_eq!(
            RunTime::from_nanos(u64::MAX).saturating_add(Span::from_nanos(1)),
            RunTime::from_nanos(u64::MAX)
        );
    }
}
