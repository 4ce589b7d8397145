//! The check of one counter's rate against a reference counter, on one CPU.
//!
//! A [`ReadOut`] is a reading of the counter between two readings of the reference. The counter was read at some time
//! between these two readings. So the time between two read-outs was, by the reference, at least `lo` and at most `hi`.
//! The counter is condemned only if no time from `lo` to `hi` explains its count. So no preemption condemns a good
//! counter. A preemption within a read-out makes the read-out wide, and the read-out is repeated. A preemption between
//! two read-outs makes the interval longer.
//!
//! # Counters that wrap
//!
//! The count of a counter with few bits is known only up to whole wraps. As long as the interval is short, the shortest
//! explanation is the right one. A counter must not be condemned because the process was stopped for ten minutes. So if
//! some number of wraps of either counter explains both readings, this explanation is accepted, and the interval is
//! *too long* for a check. If both counters wrap, the check searches for an explanation of up to [`STOPPED`].
//!
//! The check does not cover one case: a reference of few bits, and a checker that loses its CPU within a read-out for
//! exactly the time in which the reference wraps, to within 50 µs.

use super::super::Counter;
use super::verdict::{CounterVerdict, Doubt, Reason};
use crate::time::Span;
use crate::time::convert::Cycles;

/// The largest distance between the two readings of the reference in a read-out (spec C-6.6).
pub const WINDOW: Span = Span::from_micros(50);
/// The largest difference, in parts per million, of two counters whose frequencies are known. It equals the limit of
/// the steering of clocks (spec C-6.6, TIM-27).
pub const LIMIT_PPM: u32 = 500;
/// The largest difference, in parts per million, while the frequency of one counter is only nominal, or was measured
/// briefly (spec C-6.6).
pub const LIMIT_UNCALIBRATED_PPM: u32 = 4_000;
/// The number of too wide read-outs after which the check is inconclusive. It is small, because a machine that
/// interrupts the checker three times within microseconds does so a fourth time.
pub const READ_OUTS: u32 = 3;
/// The longest interval that is judged, twenty times the intended interval. After a longer interval the checker was
/// stopped, and perhaps the machine with some of its counters.
pub const LONGEST: Span = Span::from_secs(10);
/// The longest time for which a checker may be stopped while both counters wrap.
const STOPPED: Span = Span::from_secs(3_600);
/// The most explanations that are tried for counters that wrap fast.
const EXPLANATIONS: u128 = 4_096;
/// The largest excess of a rate that is reported, in parts per million.
const PPM_MAX: i128 = 1_000_000_000;

/// A reading of a counter between two readings of its reference, all by one CPU and in this order. The host ensures the
/// order of its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOut {
    /// The reference, before the counter was read.
    pub before: Cycles,
    /// The counter.
    pub counter: Cycles,
    /// The reference, after the counter was read.
    pub behind: Cycles,
}

/// The result of a read-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FrequencyStep {
    /// The interval was too wide, so the check needs another read-out at once.
    Again,
    /// The check is over.
    Done(CounterVerdict),
}

/// An accepted read-out, with its width in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Taken {
    read_out: ReadOut,
    width: u128,
}

/// The check of one counter against one reference, read-out by read-out.
#[derive(Clone, Debug)]
pub struct FrequencyCheck {
    counter: Counter,
    reference: Counter,
    limit_ppm: u32,
    last: Option<Taken>,
    tries: u32,
}

/// The time between two read-outs, as an interval in nanoseconds, so that neither overflow nor rounding decides a
/// check.
#[derive(Clone, Copy, Debug)]
struct Elapsed {
    least: u128,
    most: u128,
    /// The time that the counter counted, in nanoseconds of its stated frequency.
    counted: u128,
}

impl Elapsed {
    /// Returns true if some time between `least` and `most` equals the counted time, to `limit` parts per million.
    const fn explains(&self, limit: u128) -> bool {
        self.counted * 1_000_000 <= self.most * (1_000_000 + limit)
            && self.counted * 1_000_000 >= self.least * (1_000_000 - limit)
    }

    const fn middle(&self) -> u128 {
        self.least.midpoint(self.most)
    }

    fn ppm(&self) -> i128 {
        let middle = i128::try_from(self.middle().max(1)).unwrap_or(i128::MAX);
        let counted = i128::try_from(self.counted).unwrap_or(i128::MAX);
        // Rounds towards zero.
        (counted.saturating_sub(middle).saturating_mul(1_000_000) / middle).min(PPM_MAX)
    }

    /// Returns the largest error of the measured rate, rounded up.
    fn within(&self) -> u128 {
        ((self.most - self.least) * 500_000).div_ceil(self.middle().max(1))
    }

    fn with_wraps(self, of_reference: u128, of_counter: u128) -> Self {
        Self {
            least: self.least + of_reference,
            most: self.most + of_reference,
            counted: self.counted + of_counter,
        }
    }
}

fn span(nanos: u128) -> Span {
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl FrequencyCheck {
    /// Makes a check of `counter` against `reference`, which must be another counter. The two may differ by `limit_ppm`
    /// parts per million: [`LIMIT_PPM`], or [`LIMIT_UNCALIBRATED_PPM`]. The largest limit is 999,999.
    #[must_use]
    pub fn new(counter: Counter, reference: Counter, limit_ppm: u32) -> Self {
        Self {
            counter,
            reference,
            limit_ppm: limit_ppm.min(999_999),
            last: None,
            tries: 0,
        }
    }

    /// Forgets the last read-out, because the machine slept or one of the counters was set.
    pub fn start_again(&mut self) {
        self.last = None;
        self.tries = 0;
    }

    /// Takes read-outs, at most [`READ_OUTS`], until they give a verdict.
    pub fn run(&mut self, mut read: impl FnMut() -> ReadOut) -> CounterVerdict {
        loop {
            if let FrequencyStep::Done(verdict) = self.feed(read()) {
                return verdict;
            }
        }
    }

    /// Evaluates one read-out.
    pub fn feed(&mut self, read_out: ReadOut) -> FrequencyStep {
        let width = self
            .reference
            .nanos_between(read_out.before, read_out.behind);
        if width > u128::from(WINDOW.as_nanos()) {
            self.tries += 1;
            if self.tries < READ_OUTS {
                return FrequencyStep::Again;
            }
            let tries = core::mem::take(&mut self.tries);
            // Stops of the checker must not add up over checks.
            self.last = None;
            let width = span(width);
            return FrequencyStep::Done(CounterVerdict::Inconclusive(Doubt::SlowReadOut {
                width,
                tries,
            }));
        }
        self.tries = 0;
        let taken = Taken { read_out, width };
        let Some(last) = self.last.replace(taken) else {
            return FrequencyStep::Done(CounterVerdict::Inconclusive(Doubt::First));
        };
        let verdict = self.judge(last, taken);
        if let CounterVerdict::Inconclusive(Doubt::TooShort { .. }) = verdict {
            self.last = Some(last);
        }
        FrequencyStep::Done(verdict)
    }

    fn judge(&self, last: Taken, now: Taken) -> CounterVerdict {
        let passed = self
            .reference
            .nanos_between(last.read_out.before, now.read_out.before);
        // A reading says which period of its counter it is, and conversions round down.
        let edge = self.reference.period() + self.counter.period() + 2;
        let plain = Elapsed {
            least: passed.saturating_sub(last.width + edge),
            most: passed + now.width + edge,
            counted: self
                .counter
                .nanos_between(last.read_out.counter, now.read_out.counter),
        };
        let limit = u128::from(self.limit_ppm);
        // The error alone must not use up the limit.
        if (plain.most - plain.least) * 1_000_000 > limit.max(1) * plain.middle() {
            return CounterVerdict::Inconclusive(Doubt::TooShort {
                elapsed: span(passed),
            });
        }
        let longest = u128::from(LONGEST.as_nanos());
        let Some(elapsed) = self.explanation(plain, limit) else {
            if passed > longest {
                return CounterVerdict::Inconclusive(Doubt::TooLong {
                    elapsed: span(passed),
                });
            }
            return CounterVerdict::Bad(self.reason(plain));
        };
        if elapsed.middle() > longest {
            return CounterVerdict::Inconclusive(Doubt::TooLong {
                elapsed: span(elapsed.middle()),
            });
        }
        CounterVerdict::Good {
            ppm: i32::try_from(elapsed.ppm()).unwrap_or(i32::MAX),
            within_ppm: u32::try_from(elapsed.within()).unwrap_or(u32::MAX),
        }
    }

    fn reason(&self, elapsed: Elapsed) -> Reason {
        let over = span(elapsed.middle());
        if elapsed.counted == 0 {
            return Reason::StandsStill { over };
        }
        Reason::Frequency {
            ppm: i32::try_from(elapsed.ppm()).unwrap_or(i32::MAX),
            limit_ppm: self.limit_ppm,
            over,
        }
    }

    /// Returns the shortest time that explains the counts of both counters, with any number of wraps of each.
    fn explanation(&self, plain: Elapsed, limit: u128) -> Option<Elapsed> {
        let (of_reference, of_counter) = (self.reference.wrap(), self.counter.wrap());
        let slower = of_reference.max(of_counter);
        let wraps = (u128::from(STOPPED.as_nanos()) / slower).min(EXPLANATIONS);
        // So many wraps of the one with the longer wrap, and of the other as many as come nearest.
        let nearest = |ahead: u128, behind: u128, wrap: u128| {
            (ahead.saturating_sub(behind) + wrap / 2) / wrap
        };
        (0..=wraps)
            .map(|wraps| {
                if of_reference >= of_counter {
                    let passed = plain.middle() + wraps * of_reference;
                    let of_it = nearest(passed, plain.counted, of_counter);
                    plain.with_wraps(wraps * of_reference, of_it * of_counter)
                } else {
                    let counted = plain.counted + wraps * of_counter;
                    let of_it = nearest(counted, plain.middle(), of_reference);
                    plain.with_wraps(of_it * of_reference, wraps * of_counter)
                }
            })
            .find(|elapsed| elapsed.explains(limit))
    }
}

impl Counter {
    /// Returns the time that the counter counts from `from` to `to`, without whole wraps, in nanoseconds.
    fn nanos_between(&self, from: Cycles, to: Cycles) -> u128 {
        let counted = to.0.wrapping_sub(from.0) & self.all_bits();
        self.frequency.nanos_in(u128::from(counted))
    }

    /// Returns the time in which the counter wraps, in nanoseconds; never 0.
    fn wrap(&self) -> u128 {
        self.frequency
            .nanos_in(u128::from(self.all_bits()) + 1)
            .max(1)
    }

    /// Returns the time between two values of the counter, in nanoseconds.
    fn period(&self) -> u128 {
        self.frequency.nanos_in(1) + 1
    }

    /// Returns the mask of all bits of the counter. A reported number of bits outside of 1 to 64 is clamped to this
    /// range.
    pub(super) const fn all_bits(&self) -> u64 {
        let bits = match self.bits {
            0 => 1,
            1..64 => self.bits,
            _ => 64,
        };
        u64::MAX >> (64 - bits)
    }
}
