//! Reservations of tasks: an amount of runtime in each period of a worker.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tickless_core::time::Span;
pub use tickless_sched::deadline::{Bandwidth, Rejected};
use tickless_sched::deadline::{Reservation, ReservationError};

/// A reservation: an amount of runtime in each period, before a deadline that counts from the beginning of the period.
/// Control loops, mixers and feed handlers use it to be in time.
///
/// Tasks with a deadline run before all other tasks of their worker, the earliest deadline first, and stay on that
/// worker. A task that has used its runtime is *throttled*: it waits for its next period, even if its worker is idle.
/// So a task that computes for longer than its reservation delays only itself, and the other tasks keep the time that
/// the reservations leave.
///
/// ```
/// use std::time::Duration;
/// use tickless::Executor;
/// use tickless::task::Deadline;
///
/// let executor = Executor::builder().workers(1).build()?;
/// // A millisecond in every ten, in the first five of them.
/// let [runtime, deadline, period] = [1, 5, 10].map(Duration::from_millis);
/// let control = executor.try_spawn_with(Deadline::new(runtime, deadline, period)?, async {
///     let mut period = tickless::time::interval(Duration::from_millis(10));
///     for _ in 0..3 {
///         period.tick().await;
///         // Measure, compute, steer.
///     }
/// })?;
/// executor.block_on(control)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Reservation);

impl Deadline {
    /// Reserves `runtime` in each `period`, before its `deadline`.
    ///
    /// # Errors
    ///
    /// Unless 10 µs <= `runtime` <= `deadline` <= `period` <= one hour.
    pub fn new(
        runtime: Duration,
        deadline: Duration,
        period: Duration,
    ) -> Result<Self, DeadlineError> {
        let made = Reservation::new(span(runtime), span(deadline), span(period));
        made.map(Self).map_err(DeadlineError)
    }

    /// Reserves `runtime` in each `period`, at any time before the next period begins.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new).
    pub fn periodic(runtime: Duration, period: Duration) -> Result<Self, DeadlineError> {
        Self::new(runtime, period, period)
    }

    /// Returns the runtime in each period.
    #[must_use]
    pub const fn runtime(self) -> Duration {
        duration(self.0.runtime())
    }

    /// Returns the time from the beginning of a period to its deadline.
    #[must_use]
    pub const fn deadline(self) -> Duration {
        duration(self.0.deadline())
    }

    /// Returns the length of a period.
    #[must_use]
    pub const fn period(self) -> Duration {
        duration(self.0.period())
    }

    /// Returns the share of a worker that the reservation takes.
    #[must_use]
    pub const fn bandwidth(self) -> Bandwidth {
        self.0.bandwidth()
    }

    pub(crate) const fn reservation(self) -> Reservation {
        self.0
    }
}

/// The reason why a [`Deadline`] is not possible; its text names both numbers. Final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineError(ReservationError);

impl fmt::Display for DeadlineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for DeadlineError {}

/// Converts a duration. A duration that is longer than a span becomes the longest span, which is an error too.
fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_what_it_was_made_from() {
        let [runtime, deadline, period] = [1, 5, 20].map(Duration::from_millis);
        let made = Deadline::new(runtime, deadline, period).expect("it makes sense");
        assert_eq!(
            (made.runtime(), made.deadline(), made.period()),
            (runtime, deadline, period)
        );
        assert_eq!(made.bandwidth().to_string(), "5.0 %");
        let periodic = Deadline::periodic(runtime, period).expect("it makes sense");
        assert_eq!(periodic.deadline(), period);
    }

    #[test]
    fn nonsense_is_named_with_its_numbers() {
        let micros = Duration::from_micros;
        let text = |runtime, deadline, period| {
            let refused = Deadline::new(runtime, deadline, period);
            refused.expect_err("it makes no sense").to_string()
        };
        let cases = [
            (
                text(Duration::ZERO, micros(50), micros(50)),
                "a runtime of 0 ns is shorter than 10000 ns",
            ),
            (
                text(micros(10), micros(10), Duration::ZERO),
                "a deadline of 10000 ns is behind the period of 0 ns",
            ),
            (
                text(micros(60), micros(50), micros(50)),
                "a runtime of 60000 ns does not fit into a deadline of 50000 ns",
            ),
            (
                text(Duration::MAX, Duration::MAX, Duration::MAX),
                "a period of 9223372036854775807 ns is longer than 3600000000000 ns",
            ),
        ];
        for (said, expected) in cases {
            assert_eq!(said, expected);
        }
    }
}
