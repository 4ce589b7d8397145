//! A point in time, as `tokio::time` has it.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::{Duration, Instant as StdInstant};

use crate::host::registry::timers;

/// A point on the monotonic clock: [`std::time::Instant`] with the methods of `tokio::time::Instant`.
///
/// Converting from and to the standard library's is free and exact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    std: StdInstant,
}

impl Instant {
    /// The time now, by the operating system's monotonic clock.
    pub fn now() -> Self {
        Self {
            std: StdInstant::now(),
        }
    }

    /// The same point as one of the standard library's.
    pub const fn from_std(std: StdInstant) -> Self {
        Self { std }
    }

    /// The same point as one of the standard library's.
    pub const fn into_std(self) -> StdInstant {
        self.std
    }

    /// The time from `earlier` to this point; zero if `earlier` is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// The time from `earlier` to this point, or `None` if `earlier` is later.
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.std.checked_duration_since(earlier.std)
    }

    /// The time from `earlier` to this point; zero if `earlier` is later.
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// The time from this point to now; zero if it is to come.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// This point plus `duration`, or `None` if that cannot be told.
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.std.checked_add(duration).map(Self::from_std)
    }

    /// This point minus `duration`, or `None` if that cannot be told.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.std.checked_sub(duration).map(Self::from_std)
    }

    /// Thirty years from now: tokio's "never", kept for what is computed and does not fit.
    pub(super) fn far_future() -> Self {
        Self::now() + Duration::from_secs(86400 * 365 * 30)
    }

    /// This point as the core counts.
    #[inline]
    pub(crate) fn to_core(self) -> tickless_core::time::Instant {
        timers().platform().clock.anchor.to_core(self.std)
    }

    /// A point of the core's; one that the standard library cannot tell becomes the far future.
    pub(crate) fn from_core(instant: tickless_core::time::Instant) -> Self {
        let std = timers().platform().clock.anchor.to_std(instant);
        std.map_or_else(Self::far_future, Self::from_std)
    }
}

impl From<StdInstant> for Instant {
    fn from(std: StdInstant) -> Self {
        Self::from_std(std)
    }
}

impl From<Instant> for StdInstant {
    fn from(instant: Instant) -> Self {
        instant.into_std()
    }
}

/// For raw timers; exact, and 292 years from the start of the system at most.
impl From<Instant> for tickless_core::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.to_core()
    }
}

/// From raw timers; exact. What the standard library cannot tell becomes a time in thirty years.
impl From<tickless_core::time::Instant> for Instant {
    fn from(instant: tickless_core::time::Instant) -> Self {
        Self::from_core(instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self::from_std(self.std + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self::from_std(self.std - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(formatter)
    }
}
