//! The result of a watchdog's check.

use core::fmt;

use crate::cpu::CpuId;
use crate::time::Span;

/// The result of a check of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterVerdict {
    /// The counter shows no fault in this check.
    Good {
        /// The difference of the rate from the reference, in parts per million; 0 if frequencies were not compared.
        ppm: i32,
        /// The largest error of `ppm`, in parts per million.
        within_ppm: u32,
    },
    /// The counter is bad, even if the measurement was disturbed.
    Bad(Reason),
    /// The counter may be good or bad: the result has another explanation, or there is no result.
    Inconclusive(Doubt),
}

impl CounterVerdict {
    /// Returns true if the counter is condemned.
    #[must_use]
    pub const fn is_bad(&self) -> bool {
        matches!(self, Self::Bad(_))
    }
}

/// The reasons why a counter is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The counter runs at another rate than its reference.
    Frequency {
        /// The excess of the counter's rate, in parts per million; the largest reported value is a thousand times the
        /// rate.
        ppm: i32,
        /// The largest excess that is allowed.
        limit_ppm: u32,
        /// The time over which the rate was measured, by the reference.
        over: Span,
    },
    /// The counter stood still while its reference counted.
    StandsStill {
        /// The time for which the counter stood still, by the reference.
        over: Span,
    },
    /// The copy of one CPU lags behind the copy of another CPU.
    Lags {
        /// The CPU whose copy is behind.
        cpu: CpuId,
        /// The CPU that had read a later value before.
        behind: CpuId,
        /// A lower bound of the lag.
        by: Span,
    },
}

/// The reasons why a check is inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// The read-out is the first one, or the first one after a rejected read-out, so there is no earlier read-out to
    /// compare.
    First,
    /// The two readings of the reference around the reading of the counter were never close enough together.
    SlowReadOut {
        /// The distance between the two readings of the reference in the last try.
        width: Span,
        /// The number of tries.
        tries: u32,
    },
    /// The time since the last read-out is too short to compute the rate.
    TooShort {
        /// The length of the interval.
        elapsed: Span,
    },
    /// The time since the last read-out is too long: the checker was stopped, or the machine.
    TooLong {
        /// The length of the interval, as far as it is known.
        elapsed: Span,
    },
    /// A CPU did not answer: it is busy, or sleeps deeply.
    NoAnswer {
        /// The CPU that did not answer.
        cpu: CpuId,
        /// The number of tries with this CPU.
        tries: u32,
    },
    /// The counter wraps so fast that a wait looks like a lag.
    Narrow {
        /// The width of the counter, in bits.
        bits: u32,
    },
}

/// A time that is formatted as a whole number of a suitable unit.
struct Readable(Span);

impl fmt::Display for Readable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        // Rounds down: a message, not a measurement.
        match nanos {
            0..10_000 => write!(formatter, "{nanos} ns"),
            10_000..10_000_000 => write!(formatter, "{} us", nanos / 1_000),
            10_000_000..10_000_000_000 => write!(formatter, "{} ms", nanos / 1_000_000),
            _ => write!(formatter, "{} s", nanos / 1_000_000_000),
        }
    }
}

impl fmt::Display for CounterVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good {
                ppm: 0,
                within_ppm: 0,
            } => formatter.write_str("good"),
            Self::Good { ppm, within_ppm } => {
                write!(formatter, "good: {ppm:+} ppm, within {within_ppm}")
            }
            Self::Bad(reason) => write!(formatter, "bad: it {reason}"),
            Self::Inconclusive(doubt) => write!(formatter, "inconclusive: {doubt}"),
        }
    }
}

/// Writes the reason as a predicate to "the counter ...".
impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frequency {
                ppm,
                limit_ppm,
                over,
            } => {
                let way = if *ppm < 0 { "slow" } else { "fast" };
                write!(
                    formatter,
                    "runs {way} by {} ppm, of which {limit_ppm} are allowed, over {}",
                    ppm.unsigned_abs(),
                    Readable(*over)
                )
            }
            Self::StandsStill { over } => {
                write!(formatter, "stood still for {}", Readable(*over))
            }
            Self::Lags { cpu, behind, by } => {
                write!(
                    formatter,
                    "lags on CPU {} behind CPU {} by {} or more",
                    cpu.0,
                    behind.0,
                    Readable(*by)
                )
            }
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => formatter.write_str("there is nothing to compare with yet"),
            Self::SlowReadOut { width, tries } => write!(
                formatter,
                "a read-out took {}, too long, {tries} times in a row",
                Readable(*width)
            ),
            Self::TooShort { elapsed } => {
                write!(formatter, "{} is too short to tell", Readable(*elapsed))
            }
            Self::TooLong { elapsed } => write!(
                formatter,
                "{} passed since the last check, as if the checker had been stopped",
                Readable(*elapsed)
            ),
            Self::NoAnswer { cpu, tries } => {
                write!(
                    formatter,
                    "CPU {} did not answer, {tries} times in a row",
                    cpu.0
                )
            }
            Self::Narrow { bits } => {
                write!(
                    formatter,
                    "with {bits} bits it wraps too fast to tell a lag from a wait"
                )
            }
        }
    }
}
