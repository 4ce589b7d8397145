//! A point in time on a clock that never goes back.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use tickless_core::hrtimer::Start;
use tickless_core::time::{ClockId, Instant, Span};

use crate::host::registry::shown;

/// A point on the clock `C`, in whole nanoseconds: [`boottime::Instant`](crate::boottime::Instant) and
/// [`tai::Instant`](crate::tai::Instant).
///
/// The clock is part of the type, so that points on different clocks do not compare, and no sleep takes a point on the
/// wrong one:
///
/// ```compile_fail,E0308
/// let mixed = tickless::boottime::Instant::now() < tickless::tai::Instant::now();
/// ```
///
/// ```compile_fail,E0308
/// let sleep = tickless::boottime::sleep_until(tickless::time::Instant::now());
/// ```
///
/// The range is 292 years in both directions from the origin of the clock. A sum or a difference beyond the range
/// becomes the end of the range.
pub struct Point<C> {
    point: Instant<C>,
}

impl<C: ClockId> Point<C> {
    /// Reads the clock from the kernel; on a thread whose clock is [paused](crate::time::pause), reads the paused
    /// clock.
    ///
    /// # Cost
    ///
    /// Some tens of nanoseconds if the kernel answers without a system call, as it does for all of these clocks on the
    /// usual platforms; otherwise a system call.
    #[must_use]
    pub fn now() -> Self {
        Self { point: shown() }
    }

    /// Makes the point `nanos` nanoseconds after the origin of the clock, or before the origin if `nanos` is negative.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self {
            point: Instant::from_nanos(nanos),
        }
    }

    /// Returns the nanoseconds since the origin of the clock.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.point.as_nanos()
    }

    /// Returns the time from `earlier` to this point; zero if `earlier` is later.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.point.saturating_since(earlier.point).into()
    }

    /// Returns the time from `earlier` to this point, or `None` if `earlier` is later.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        (earlier <= *self).then(|| self.duration_since(earlier))
    }

    /// Returns the time from this point to now; zero if the point is in the future.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Returns this point plus `duration`, or `None` if the sum is out of range.
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        let nanos = i64::try_from(duration.as_nanos()).ok()?;
        self.as_nanos().checked_add(nanos).map(Self::from_nanos)
    }

    /// Returns this point minus `duration`, or `None` if the difference is out of range.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        let nanos = i64::try_from(duration.as_nanos()).ok()?;
        self.as_nanos().checked_sub(nanos).map(Self::from_nanos)
    }

    pub(super) const fn from_core(point: Instant<C>) -> Self {
        Self { point }
    }

    pub(super) const fn to_core(self) -> Instant<C> {
        self.point
    }
}

impl<C> Clone for Point<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Point<C> {}

impl<C> PartialEq for Point<C> {
    fn eq(&self, other: &Self) -> bool {
        self.point == other.point
    }
}

impl<C> Eq for Point<C> {}

impl<C> PartialOrd for Point<C> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<C> Ord for Point<C> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.point.cmp(&other.point)
    }
}

impl<C> std::hash::Hash for Point<C> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.point.hash(state);
    }
}

impl<C: ClockId> fmt::Debug for Point<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.point.fmt(formatter)
    }
}

/// Adds a duration. A sum beyond the range becomes the end of the range.
impl<C: ClockId> Add<Duration> for Point<C> {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self::from_core(self.point.saturating_add(Span::from(duration)))
    }
}

impl<C: ClockId> AddAssign<Duration> for Point<C> {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Subtracts a duration. A difference beyond the range becomes the beginning of the range.
impl<C: ClockId> Sub<Duration> for Point<C> {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self::from_nanos(self.as_nanos().saturating_sub(nanos))
    }
}

impl<C: ClockId> SubAssign<Duration> for Point<C> {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// Subtracts as [`duration_since`](Point::duration_since) does.
impl<C: ClockId> Sub for Point<C> {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Converts a point to the instant that timers with callbacks take.
impl<C: ClockId> From<Point<C>> for Instant<C> {
    fn from(point: Point<C>) -> Self {
        point.point
    }
}

/// Converts an instant of a timer with a callback to a point.
impl<C: ClockId> From<Instant<C>> for Point<C> {
    fn from(point: Instant<C>) -> Self {
        Self::from_core(point)
    }
}

/// Makes the start of a timer with a callback at this point.
impl<C: ClockId> From<Point<C>> for Start<C> {
    fn from(point: Point<C>) -> Self {
        Self::at(point.point)
    }
}

#[cfg(test)]
mod tests {
    use tickless_core::time::{Boottime, Tai};

    use super::*;

    /// TIM-2, B52.
    #[test]
    fn sums_of_any_length_stay_within_the_range() {
        for start in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
            let point = Point::<Boottime>::from_nanos(start);
            assert!(point + Duration::MAX >= point - Duration::from_nanos(1_000_000_000));
            assert!(point - Duration::MAX <= point);
            assert_eq!(point.checked_add(Duration::MAX), None);
            assert_eq!(point.checked_sub(Duration::MAX), None);
        }
        let end = Point::<Tai>::from_nanos(i64::MAX);
        assert_eq!(end.checked_add(Duration::from_nanos(1)), None);
        assert_eq!((end - Duration::from_nanos(7)).as_nanos(), i64::MAX - 7);
    }

    #[test]
    fn differences_of_any_points_are_told() {
        let (begin, end) = (
            Point::<Boottime>::from_nanos(i64::MIN),
            Point::from_nanos(i64::MAX),
        );
        assert_eq!(begin - end, Duration::ZERO);
        assert_eq!(end.checked_duration_since(begin), Some(end - begin));
        assert_eq!(begin.checked_duration_since(end), None);
        assert!(end - begin >= Duration::from_secs(9_000_000_000));
    }
}
