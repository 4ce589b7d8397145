//! Points in time, spans of time, and the clocks of points in time.
//!
//! Points and spans count nanoseconds in 64 bits, and have types of their own. The type of an [`Instant`] contains its
//! clock, so that a time of day cannot be compared with a time since boot by accident (spec TIM-4). Counter cycles and
//! device ticks are separate types, and only [`convert`] converts one unit to another.
//!
//! # Range
//!
//! The range is 292 years in both directions. Arithmetic saturates: no sum of a caller's instant and a caller's span
//! wraps (spec TIM-2).

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

pub mod convert;
pub(crate) mod forward;
mod roundest;

/// A clock for timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Clock {
    /// The clock that is never set. Its frequency is steered, and it stops while the machine is suspended.
    Monotonic = 0,
    /// The time of day in UTC. It jumps when it is set, at leap seconds and after a suspend.
    Realtime = 1,
    /// The clock that counts as [`Monotonic`](Clock::Monotonic) does, but also during a suspend.
    Boottime = 2,
    /// International atomic time: the time of day without leap seconds.
    Tai = 3,
}

impl Clock {
    /// All clocks, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Monotonic, Self::Realtime, Self::Boottime, Self::Tai];

    /// Returns the name that POSIX and Linux use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Realtime => "CLOCK_REALTIME",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::Tai => "CLOCK_TAI",
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A [`Clock`] as a type.
pub trait ClockId: sealed::Sealed + 'static {
    /// The value of the clock.
    const CLOCK: Clock;
}

/// A clock on which a relative time such as "in five seconds" is well defined.
///
/// [`Realtime`] is no such clock: POSIX demands that a set of the time of day does not affect a relative sleep, so a
/// relative timer belongs on [`Monotonic`].
pub trait RelativeClock: ClockId {}

macro_rules! clocks {
    ($($name:ident),*) => {$(
        #[doc = concat!("[`Clock::", stringify!($name), "`] as a type.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {}
        impl sealed::Sealed for $name {}
        impl ClockId for $name {
            const CLOCK: Clock = Clock::$name;
        }
    )*};
}
clocks!(Monotonic, Realtime, Boottime, Tai);
impl RelativeClock for Monotonic {}
impl RelativeClock for Boottime {}
impl RelativeClock for Tai {}

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: i64 = 1_000_000_000;

/// The latest instant that a caller can request, in nanoseconds: the largest whole number of seconds that fits (spec
/// TIM-2).
pub(crate) const SETTABLE_MAX: i64 = i64::MAX / NANOS_PER_SEC * NANOS_PER_SEC;

/// A point on the clock `C`, in nanoseconds.
pub struct Instant<C = Monotonic> {
    nanos: i64,
    clock: PhantomData<fn() -> C>,
}

impl<C> Instant<C> {
    /// The origin of the clock.
    pub const ZERO: Self = Self::from_nanos(0);
    /// A point later than all others, which means "no event".
    pub const FOREVER: Self = Self::from_nanos(i64::MAX);
    /// The latest instant for which a timer can be started; a later request is clamped to it.
    pub const LATEST: Self = Self::from_nanos(SETTABLE_MAX);

    /// Makes the point `nanos` nanoseconds after the origin of the clock, or before it if negative.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self {
            nanos,
            clock: PhantomData,
        }
    }

    /// Returns the nanoseconds since the origin of the clock.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }

    /// Returns true if this is [`FOREVER`](Self::FOREVER).
    #[inline]
    #[must_use]
    pub const fn is_forever(self) -> bool {
        self.nanos == i64::MAX
    }

    /// Returns this point plus `span`, at most [`LATEST`](Self::LATEST).
    #[inline]
    #[must_use]
    pub fn saturating_add(self, span: Span) -> Self {
        // No span is negative, so this does not overflow, and the sum does not unless it is greater.
        let room = SETTABLE_MAX - span.nanos;
        let saturated = if self.nanos > room {
            SETTABLE_MAX
        } else {
            self.nanos.wrapping_add(span.nanos)
        };
        Self::from_nanos(saturated)
    }

    /// Returns the span from `earlier` to this point; zero if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Span {
        let difference = self.nanos.saturating_sub(earlier.nanos);
        Span {
            nanos: if difference < 0 { 0 } else { difference },
        }
    }

    /// Returns this point, or the origin of the clock if this point is before it.
    ///
    /// A deadline on a clock whose offset changed can lie before the origin of the monotonic clock, and no device can
    /// be programmed for such a time.
    #[inline]
    #[must_use]
    pub const fn not_negative(self) -> Self {
        if self.nanos < 0 { Self::ZERO } else { self }
    }
}

impl<C> Clone for Instant<C> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for Instant<C> {}
impl<C> PartialEq for Instant<C> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl<C> Eq for Instant<C> {}
impl<C> PartialOrd for Instant<C> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<C> Ord for Instant<C> {
    #[inline]
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}
impl<C> core::hash::Hash for Instant<C> {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}
impl<C: ClockId> fmt::Debug for Instant<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_forever() {
            return write!(formatter, "{}(forever)", C::CLOCK.name());
        }
        write!(formatter, "{}({} ns)", C::CLOCK.name(), self.nanos)
    }
}

/// A length of time in nanoseconds, never negative, at most 292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    nanos: i64,
}

impl Span {
    /// The empty span.
    pub const ZERO: Self = Self { nanos: 0 };
    /// The longest span.
    pub const MAX: Self = Self { nanos: i64::MAX };

    /// Makes a span of `nanos` nanoseconds, at most [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self {
            nanos: if nanos > i64::MAX.unsigned_abs() {
                i64::MAX
            } else {
                nanos.cast_signed()
            },
        }
    }

    /// Makes a span of `micros` microseconds, at most [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }

    /// Makes a span of `millis` milliseconds, at most [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// Makes a span of `secs` seconds, at most [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the length in nanoseconds.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.nanos.cast_unsigned()
    }

    /// Returns true if the span is empty.
    #[inline]
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Adds two spans; the sum is at most [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
        }
    }
}

impl From<Duration> for Span {
    /// Converts a duration exactly; the result is at most [`Span::MAX`].
    #[inline]
    fn from(duration: Duration) -> Self {
        const NANOS: u64 = 1_000_000_000;
        const WHOLE: u64 = Span::MAX.as_nanos() / NANOS;
        // Usual ones without a multiplication of 128 bits.
        if duration.as_secs() < WHOLE {
            let nanos = duration.as_secs() * NANOS + u64::from(duration.subsec_nanos());
            return Self {
                nanos: nanos.cast_signed(),
            };
        }
        Self::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    #[inline]
    fn from(span: Span) -> Self {
        Self::from_nanos(span.as_nanos())
    }
}

/// A point on the clock of the queue that holds a timer.
///
/// Deadlines are the keys of the queues. A deadline is deliberately not an [`Instant`]: only with an [`Offset`] can it
/// be compared with an [`Instant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(i64);

impl Deadline {
    /// The time after every deadline. As a first deadline it means that the queue is empty.
    pub(crate) const FOREVER: Self = Self(i64::MAX);
    /// The key before every deadline, for a timer that fires because its clock was set.
    pub(crate) const CLOCK_SET: Self = Self(i64::MIN);

    /// Makes the deadline for an instant of a caller, at most [`Instant::LATEST`]. So a queued deadline is neither
    /// [`FOREVER`](Self::FOREVER) nor [`CLOCK_SET`](Self::CLOCK_SET).
    #[inline]
    pub(crate) const fn new<C: ClockId>(instant: Instant<C>) -> Self {
        Self(if instant.nanos > SETTABLE_MAX {
            SETTABLE_MAX
        } else if instant.nanos == i64::MIN {
            i64::MIN + 1
        } else {
            instant.nanos
        })
    }

    /// Makes a deadline as [`new`](Self::new) does, for an instant between the origin of its clock and
    /// [`Instant::LATEST`]. Returns `None` for the other instants, which are rare. The function takes one comparison,
    /// and the compiler knows that the result is not negative.
    #[inline(always)]
    pub(crate) const fn plain<C: ClockId>(instant: Instant<C>) -> Option<Self> {
        let nanos = instant.nanos.cast_unsigned();
        if nanos > SETTABLE_MAX.cast_unsigned() {
            return None;
        }
        Some(Self(nanos.cast_signed()))
    }

    /// Returns the deadline as an instant of its clock. The caller guarantees that the clock is `C`.
    #[inline]
    pub(crate) const fn instant<C: ClockId>(self) -> Instant<C> {
        Instant::from_nanos(self.0)
    }

    #[inline]
    pub(crate) fn saturating_add(self, span: Span) -> Self {
        Self(
            Instant::<Monotonic>::from_nanos(self.0)
                .saturating_add(span)
                .nanos,
        )
    }

    /// Returns the point `nanos` nanoseconds before this point. The subtraction does not saturate, because each
    /// push-out calls the function twice. It cannot overflow, because `nanos` is at most the distance to an earlier
    /// valid point.
    #[inline]
    pub(crate) const fn before(self, nanos: u32) -> Self {
        Self(self.0.wrapping_sub(nanos as i64))
    }

    /// Returns the distance from `other` to this time; negative if this time is before `other`.
    #[inline]
    pub(crate) const fn saturating_sub(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }

    #[inline]
    pub(crate) const fn as_nanos(self) -> i64 {
        self.0
    }
}

/// The difference between another clock and the monotonic clock (spec ).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset(i64);

impl Offset {
    /// The offset of the monotonic clock from itself.
    pub const NONE: Self = Self(0);

    /// Makes an offset of `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the offset in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns the monotonic instant at which the clock shows `deadline`. The result may be negative (spec TIM-3).
    #[inline]
    pub(crate) const fn to_monotonic(self, deadline: Deadline) -> Instant {
        Instant::from_nanos(deadline.0.saturating_sub(self.0))
    }

    /// Returns the time that the clock shows at the monotonic instant `now`.
    #[inline]
    pub(crate) const fn shown_at(self, now: Instant) -> Deadline {
        Deadline(now.nanos.saturating_add(self.0))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate_at_the_latest_settable_instant() {
        let near = Instant::<Monotonic>::from_nanos(SETTABLE_MAX - 5);
        assert_eq!(
            near.saturating_add(Span::from_nanos(4)).as_nanos(),
            SETTABLE_MAX - 1
        );
        assert_eq!(near.saturating_add(Span::from_nanos(6)), Instant::LATEST);
        assert_eq!(near.saturating_add(Span::MAX), Instant::LATEST);
        assert_eq!(
            Instant::<Monotonic>::FOREVER.saturating_add(Span::MAX),
            Instant::LATEST
        );
        assert_eq!(SETTABLE_MAX, 9_223_372_036 * NANOS_PER_SEC);
    }

    #[test]
    fn a_queued_deadline_is_never_forever() {
        assert!(Deadline::new(Instant::<Realtime>::FOREVER) < Deadline::FOREVER);
        assert!(
            Deadline::new(Instant::<Realtime>::LATEST).saturating_add(Span::MAX)
                < Deadline::FOREVER
        );
    }

    #[test]
    fn durations_of_any_length_become_spans() {
        assert_eq!(Span::from(Duration::MAX), Span::MAX);
        assert_eq!(Span::from(Duration::ZERO), Span::ZERO);
        assert_eq!(
            Duration::from(Span::from(Duration::new(7, 9))),
            Duration::new(7, 9)
        );
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
    }

    #[test]
    fn offsets_convert_both_ways_and_saturate() {
        let offset = Offset::from_nanos(1_700_000_000_000_000_000);
        let deadline = Deadline::new(Instant::<Realtime>::from_nanos(1_700_000_000_000_004_000));
        assert_eq!(offset.to_monotonic(deadline).as_nanos(), 4000);
        assert_eq!(offset.shown_at(Instant::from_nanos(4000)), deadline);
        let early = Deadline::new(Instant::<Realtime>::from_nanos(100));
        assert_eq!(offset.to_monotonic(early).not_negative(), Instant::ZERO);
        let negative = Offset::from_nanos(i64::MIN);
        assert!(negative.to_monotonic(early).as_nanos() > 0);
    }
}
