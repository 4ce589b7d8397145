//! The reservation of a deadline server, and the test that all reservations can be kept.

use core::fmt;

use tickless_core::time::Span;

/// A share of a CPU, in parts of 2^20.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// No share at all.
    pub const NONE: Self = Self(0);
    /// The whole of one CPU.
    pub const WHOLE: Self = Self(1 << 20);

    /// Makes a share from hundredths of a CPU, at most all of it.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        let percent = if percent > 100 { 100 } else { percent };
        Self((Self::WHOLE.0 * percent as u64).div_ceil(100))
    }

    /// Returns the value in parts of 2^20.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for Bandwidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0 * 1_000 / Self::WHOLE.0;
        write!(formatter, "{}.{} %", tenths / 10, tenths % 10)
    }
}

/// A reservation: an amount of runtime in each period, before a deadline that counts from the beginning of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    runtime: Span,
    deadline: Span,
    period: Span,
}

/// The reasons why a reservation is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReservationError {
    /// The runtime is below [`Reservation::LEAST_RUNTIME`].
    RuntimeTooShort(Span),
    /// The runtime does not fit before the deadline.
    RuntimeBeyondDeadline(Span, Span),
    /// The deadline is after the end of the period.
    DeadlineBeyondPeriod(Span, Span),
    /// The period is above [`Reservation::LONGEST_PERIOD`].
    PeriodTooLong(Span),
}

impl fmt::Display for ReservationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RuntimeTooShort(runtime) => write!(
                formatter,
                "a runtime of {} ns is shorter than {} ns",
                runtime.as_nanos(),
                Reservation::LEAST_RUNTIME.as_nanos()
            ),
            Self::RuntimeBeyondDeadline(runtime, deadline) => write!(
                formatter,
                "a runtime of {} ns does not fit into a deadline of {} ns",
                runtime.as_nanos(),
                deadline.as_nanos()
            ),
            Self::DeadlineBeyondPeriod(deadline, period) => write!(
                formatter,
                "a deadline of {} ns is behind the period of {} ns",
                deadline.as_nanos(),
                period.as_nanos()
            ),
            Self::PeriodTooLong(period) => write!(
                formatter,
                "a period of {} ns is longer than {} ns",
                period.as_nanos(),
                Reservation::LONGEST_PERIOD.as_nanos()
            ),
        }
    }
}

impl core::error::Error for ReservationError {}

impl Reservation {
    /// The shortest runtime, 10 µs: no tick is started for a shorter time.
    pub const LEAST_RUNTIME: Span = Span::from_micros(10);
    /// The longest period, an hour.
    pub const LONGEST_PERIOD: Span = Span::from_secs(3_600);

    /// Reserves `runtime` in each `period`, before its `deadline`.
    ///
    /// # Errors
    ///
    /// Unless 10 µs <= `runtime` <= `deadline` <= `period` <= one hour.
    pub fn new(runtime: Span, deadline: Span, period: Span) -> Result<Self, ReservationError> {
        if runtime < Self::LEAST_RUNTIME {
            return Err(ReservationError::RuntimeTooShort(runtime));
        }
        if runtime > deadline {
            return Err(ReservationError::RuntimeBeyondDeadline(runtime, deadline));
        }
        if deadline > period {
            return Err(ReservationError::DeadlineBeyondPeriod(deadline, period));
        }
        if period > Self::LONGEST_PERIOD {
            return Err(ReservationError::PeriodTooLong(period));
        }
        Ok(Self {
            runtime,
            deadline,
            period,
        })
    }

    /// Returns the runtime in each period.
    #[must_use]
    pub const fn runtime(self) -> Span {
        self.runtime
    }

    /// Returns the time from the beginning of a period to its deadline.
    #[must_use]
    pub const fn deadline(self) -> Span {
        self.deadline
    }

    /// Returns the length of a period.
    #[must_use]
    pub const fn period(self) -> Span {
        self.period
    }

    /// Returns the share of the CPU that the reservation takes, rounded up.
    #[must_use]
    pub const fn bandwidth(self) -> Bandwidth {
        // An hour is 2^41.7 ns, so it fits.
        Bandwidth((self.runtime.as_nanos() * Bandwidth::WHOLE.0).div_ceil(self.period.as_nanos()))
    }
}

/// The error of a reservation that would raise the bandwidth of all servers above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The requested bandwidth.
    pub asked: Bandwidth,
    /// The bandwidth that was admitted before.
    pub admitted: Bandwidth,
    /// The largest sum of bandwidths.
    pub limit: Bandwidth,
}

impl fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            asked,
            admitted,
            limit,
        } = self;
        write!(
            formatter,
            "{asked} of the CPU and {admitted} that are admitted already come to more than {limit}"
        )
    }
}

impl core::error::Error for Rejected {}
