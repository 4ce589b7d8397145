//! A point in time, with the interface of `tokio::time::Instant`.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::{Duration, Instant as StdInstant};

use tickless_core::time::{Instant as CoreInstant, Span};

use crate::host::clock::CLOCK;
use crate::host::thread;

/// A point on the monotonic clock, with the methods of `tokio::time::Instant`: nanoseconds, 8 bytes.
///
/// [`now`](Self::now) reads the processor's counter where it can be trusted, and is within
/// [`clock::ERROR`](crate::clock::ERROR) nanoseconds of the kernel's `CLOCK_MONOTONIC`, which [`std::time::Instant`]
/// shows; where the counter cannot be trusted, `now` reads the kernel's clock. The time never runs backwards, on one
/// thread or between threads that synchronise.
///
/// An instant can be up to 292 years before or after the start of the system. A later instant becomes the last point of
/// the range, which never comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    core: CoreInstant,
}

impl Instant {
    /// Returns the present time.
    ///
    /// # Cost
    ///
    /// An ordered reading of the counter, a multiplication, and six loads. Once in 50 µs, one of the threads that read
    /// the clock also reads the kernel's clock and does two atomic exchanges.
    #[inline]
    pub fn now() -> Self {
        Self {
            core: thread::now(),
        }
    }

    /// Converts an instant of the standard library.
    ///
    /// The conversion is exact, and the inverse of [`into_std`](Self::into_std). The kernel's clock and the library's
    /// clock are not the same, so an [`Instant::now`](Self::now) after a [`StdInstant::now`] may show an earlier time,
    /// by up to [`clock::ERROR`](crate::clock::ERROR) nanoseconds.
    #[inline]
    pub fn from_std(std: StdInstant) -> Self {
        Self::from_core(CLOCK.anchor().core_of(std))
    }

    /// Converts to an instant of the standard library; a point beyond its range becomes a time in thirty years.
    pub fn into_std(self) -> StdInstant {
        let std = CLOCK.anchor().std_of(self.core);
        std.unwrap_or_else(|| StdInstant::now() + FAR)
    }

    /// Returns the time from `earlier` to this point; zero if `earlier` is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// Returns the time from `earlier` to this point, or `None` if `earlier` is later.
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        let (this, earlier) = (self.core.as_nanos(), earlier.core.as_nanos());
        (this >= earlier).then(|| Duration::from_nanos(this.abs_diff(earlier)))
    }

    /// Returns the time from `earlier` to this point; zero if `earlier` is later.
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// Returns the time from this point to now; zero if the point is in the future.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Returns this point plus `duration`, or `None` if the sum is out of range.
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        let nanos = self.core.as_nanos().checked_add_unsigned(nanos)?;
        Some(Self::from_core(CoreInstant::from_nanos(nanos)))
    }

    /// Returns this point minus `duration`, or `None` if the difference is out of range.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        let nanos = self.core.as_nanos().checked_sub_unsigned(nanos)?;
        Some(Self::from_core(CoreInstant::from_nanos(nanos)))
    }

    /// Returns the roundest point between this point and `slack` later. Other timers with slack choose round points
    /// too, so they are likely to fire at the same point.
    ///
    /// A timer with that [slack](super::Sleep::slack) fires at this point at the latest. Use it for deadlines without
    /// slack that should meet such timers: of an event loop, of a socket, of another process. (On a worker of an
    /// [attached](crate::tokio#slack) runtime a timer fires at the end of its slack instead.) With a slack of 1 ms the
    /// result is a whole millisecond of the monotonic clock, or rounder; with more slack it is a multiple of 2 ms, 4 ms
    /// and so on, and with less slack a multiple of a half, a quarter, down to 1/64 ms. With a slack of less than 1/64
    /// ms the result is this point plus the slack.
    ///
    /// `tokio::time` has no such method.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::time::Instant;
    ///
    /// let slack = Duration::from_millis(1);
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// let round = deadline.roundest_within(slack);
    /// assert!(deadline <= round && round <= deadline + slack);
    /// // Every other deadline from which that can be reached is rounded to the same, or to a rounder one.
    /// assert_eq!(round.roundest_within(Duration::ZERO), round);
    /// assert_eq!((round - Duration::from_micros(1)).roundest_within(Duration::from_micros(2)), round);
    /// ```
    #[must_use]
    pub fn roundest_within(self, slack: impl Into<Duration>) -> Self {
        Self::from_core(self.core.roundest_within(Span::from(slack.into())))
    }

    /// Returns the instant in thirty years: tokio's "never", which replaces computed instants that do not fit.
    pub(super) fn far_future() -> Self {
        Self::now() + FAR
    }

    /// The last point of the range, which never comes.
    pub(super) const NEVER: Self = Self::from_core(CoreInstant::LATEST);

    /// Converts this point to an instant of the core.
    #[inline]
    pub(crate) const fn to_core(self) -> CoreInstant {
        self.core
    }

    /// Converts an instant of the core.
    #[inline]
    pub(crate) const fn from_core(core: CoreInstant) -> Self {
        Self { core }
    }
}

const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Converts exactly, as [`from_std`](Instant::from_std) does.
impl From<StdInstant> for Instant {
    #[inline]
    fn from(std: StdInstant) -> Self {
        Self::from_std(std)
    }
}

/// Converts as [`into_std`](Instant::into_std) does: exactly, but a point beyond the range becomes a time in thirty
/// years.
impl From<Instant> for StdInstant {
    #[inline]
    fn from(instant: Instant) -> Self {
        instant.into_std()
    }
}

/// Converts exactly, because tokio's instant holds an instant of the standard library. An instant of tokio's paused
/// clock is converted as if the clock were not paused.
#[cfg(feature = "tokio")]
impl From<tokio::time::Instant> for Instant {
    #[inline]
    fn from(instant: tokio::time::Instant) -> Self {
        Self::from_std(instant.into_std())
    }
}

/// Converts exactly, but a point beyond the range becomes a time in thirty years, as with
/// [`into_std`](Instant::into_std).
#[cfg(feature = "tokio")]
impl From<Instant> for tokio::time::Instant {
    #[inline]
    fn from(instant: Instant) -> Self {
        Self::from_std(instant.into_std())
    }
}

/// Converts for raw timers; the number stays the same.
impl From<Instant> for CoreInstant {
    #[inline]
    fn from(instant: Instant) -> Self {
        instant.to_core()
    }
}

/// Converts from raw timers; the number stays the same.
impl From<CoreInstant> for Instant {
    #[inline]
    fn from(instant: CoreInstant) -> Self {
        Self::from_core(instant)
    }
}

/// Adds a duration; a sum beyond the range becomes the last point of the range.
impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self::from_core(self.core.saturating_add(Span::from(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Subtracts a duration; a difference beyond the range becomes the first point of the range.
impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration)
            .unwrap_or(Self::from_core(CoreInstant::from_nanos(i64::MIN)))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.into_std().fmt(formatter)
    }
}
