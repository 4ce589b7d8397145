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
/// [`clock::ERROR`](crate::clock::ERROR) nanoseconds of the kernel's `CLOCK_MONOTONIC`, which
/// [`std::time::Instant`] shows; where it cannot be trusted it asks the kernel. It never runs backwards, on one thread
/// or between threads that synchronise.
///
/// It reaches 292 years from the start of the system in both directions. A later instant becomes the last point of the
/// range, which never comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    core: CoreInstant,
}

impl Instant {
    /// Returns the present time.
    ///
    /// # Cost
    ///
    /// An ordered reading of the counter, a multiplication, and six loads. Once in 50 µs, for one of the threads that
    /// read the clock, that of the kernel's clock and two atomic exchanges beside.
    #[inline]
    pub fn now() -> Self {
        Self {
            core: thread::now(),
        }
    }

    /// Converts an instant of the standard library.
    ///
    /// Exact, and the inverse of [`into_std`](Self::into_std). The kernel's clock and ours are not the same, so an
    /// [`Instant::now`](Self::now) behind a [`StdInstant::now`] may show less by up to
    /// [`clock::ERROR`](crate::clock::ERROR) nanoseconds.
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

    /// Returns the roundest point between this one and `slack` later. Other timers with slack choose round points too,
    /// so they are likely to fire at the same one.
    ///
    /// A timer with that [slack](super::Sleep::slack) fires there at the latest. Use it for deadlines without slack
    /// that should meet such timers: of an event loop, of a socket, of another process. (On a worker of an
    /// [attached](crate::tokio#slack) runtime a timer fires at the end of its slack instead.) With a slack of 1 ms the
    /// result is a whole millisecond of the monotonic clock, or rounder; with more slack it is a multiple of 2 ms, 4 ms
    /// and so on, and with less of a half, a quarter, down to 1/64 ms. With less slack than that it is this point plus
    /// the slack.
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

    /// Thirty years from now: tokio's "never", kept for what is computed and does not fit.
    pub(super) fn far_future() -> Self {
        Self::now() + FAR
    }

    /// The last point there is, which never comes.
    pub(super) const NEVER: Self = Self::from_core(CoreInstant::LATEST);

    /// This point as the core counts.
    #[inline]
    pub(crate) const fn to_core(self) -> CoreInstant {
        self.core
    }

    /// A point of the core's.
    #[inline]
    pub(crate) const fn from_core(core: CoreInstant) -> Self {
        Self { core }
    }
}

const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The same point, exactly: [`from_std`](Instant::from_std).
impl From<StdInstant> for Instant {
    #[inline]
    fn from(std: StdInstant) -> Self {
        Self::from_std(std)
    }
}

/// The same point, exactly; one that it cannot tell becomes a time in thirty years: [`into_std`](Instant::into_std).
impl From<Instant> for StdInstant {
    #[inline]
    fn from(instant: Instant) -> Self {
        instant.into_std()
    }
}

/// The same point, exactly: tokio's is one of the standard library's beneath. The time of tokio's clock while it is
/// paused is a point of its own; it is taken as if it did not stand.
#[cfg(feature = "tokio")]
impl From<tokio::time::Instant> for Instant {
    #[inline]
    fn from(instant: tokio::time::Instant) -> Self {
        Self::from_std(instant.into_std())
    }
}

/// The same point, exactly; one that it cannot tell becomes a time in thirty years, as with
/// [`into_std`](Instant::into_std).
#[cfg(feature = "tokio")]
impl From<Instant> for tokio::time::Instant {
    #[inline]
    fn from(instant: Instant) -> Self {
        Self::from_std(instant.into_std())
    }
}

/// Converts for raw timers; the same number.
impl From<Instant> for CoreInstant {
    #[inline]
    fn from(instant: Instant) -> Self {
        instant.to_core()
    }
}

/// Converts from raw timers; the same number.
impl From<CoreInstant> for Instant {
    #[inline]
    fn from(instant: CoreInstant) -> Self {
        Self::from_core(instant)
    }
}

/// Ends at the last point there is.
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

/// Ends at the first point there is.
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
