//! The time that interrupts take: the clock of a run queue, which stops during interrupts, and their share of the CPU.
//!
//! A task is charged for its service only, so the clock of [the queues](crate::fair) does not count interrupts. A slice
//! timer fires by the monotonic clock, so [`fair_length`](crate::hrtick::fair_length) adds the time that interrupts
//! will probably take, estimated from their recent load.

use tickless_core::time::{Instant, Span};

use crate::amount::RunTime;

/// A share of a CPU in parts of 1,024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load(u32);

impl Load {
    /// No share at all.
    pub const NONE: Self = Self(0);

    /// Makes a load from parts of 1,024. A larger number is accepted, and scales nothing (spec X-5.6).
    #[must_use]
    pub const fn of_1024(parts: u32) -> Self {
        Self(parts)
    }

    /// Returns the load in parts of 1,024.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The clock of the run queue of a CPU, which stops while interrupts run.
///
/// The host reports the begin and the end of interrupts. Nested ones are part of the outermost. A time before the last
/// reported time counts as the last reported time.
///
/// ```
/// use tickless_core::time::Instant;
/// use tickless_sched::RunTime;
/// use tickless_sched::load::RunClock;
///
/// let mut clock = RunClock::new(Instant::from_nanos(1_000));
/// clock.interrupt_begins(Instant::from_nanos(1_500));
/// clock.interrupt_ends(Instant::from_nanos(1_700));
/// assert_eq!(clock.at(Instant::from_nanos(2_000)), RunTime::from_nanos(800));
/// // An instant of the run queue, as one of the timer's clock.
/// let end = clock.expiry(RunTime::from_nanos(1_000), Instant::from_nanos(2_000));
/// assert_eq!(end, Instant::from_nanos(2_200));
/// ```
#[derive(Clone, Debug)]
pub struct RunClock {
    /// The time at which the clock began.
    origin: Instant,
    /// The time that interrupts took since then.
    stolen: Span,
    /// The begin of the outermost interrupt that runs; `None` if none runs.
    interrupt: Option<Instant>,
    average: Decaying,
}

impl RunClock {
    /// Makes a clock that shows 0 at `now`.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            origin: now,
            stolen: Span::ZERO,
            interrupt: None,
            average: Decaying::new(now),
        }
    }

    /// Stops the clock: an interrupt begins.
    pub fn interrupt_begins(&mut self, now: Instant) {
        self.interrupt.get_or_insert(now);
    }

    /// Lets the clock run again: the outermost interrupt ends.
    pub fn interrupt_ends(&mut self, now: Instant) {
        let Some(began) = self.interrupt.take() else {
            return;
        };
        self.average.advance(began);
        let took = now.saturating_since(began);
        self.stolen = self.stolen.saturating_add(took);
        self.average.busy(now);
    }

    /// Returns the time of the clock at `now`.
    #[must_use]
    pub fn at(&self, now: Instant) -> RunTime {
        // In an interrupt it shows what it did at its begin.
        let now = self.interrupt.map_or(now, |began| began.min(now));
        let passed = now.saturating_since(self.origin).as_nanos();
        RunTime::from_nanos(passed.saturating_sub(self.stolen.as_nanos()))
    }

    /// Returns the time at which the clock will show `at` if no interrupt comes, by adding the lead of the monotonic
    /// clock at `now`.
    #[must_use]
    pub fn expiry(&self, at: RunTime, now: Instant) -> Instant {
        let left = at.saturating_since(self.at(now));
        let over = self.at(now).saturating_since(at);
        // In the past as far as it is: a timer for it is late by that.
        let then = now.saturating_add(left);
        Instant::from_nanos(then.as_nanos().saturating_sub_unsigned(over.as_nanos()))
    }

    /// Returns the share of the CPU that interrupts took recently.
    #[must_use]
    pub fn load(&mut self, now: Instant) -> Load {
        self.average.advance(now);
        self.average.load()
    }
}

/// An average in which the load of 32 periods ago counts half.
#[derive(Clone, Debug)]
struct Decaying {
    /// Average load, in parts of 2^32.
    average: u64,
    /// Busy time of the period that has begun.
    busy: u64,
    /// The time up to which all time is counted.
    counted: Instant,
    /// The time at which the period began.
    period: Instant,
}

/// The length of a period: 2^20 ns, a little more than a millisecond.
const PERIOD: u64 = 1 << 20;
/// Number one, in the fixed point of the average.
const ONE: u64 = 1 << 32;
/// Share that is left after one period: 2^(-1/32) of [`ONE`].
const KEPT: u64 = 4_202_935_003;

impl Decaying {
    const fn new(now: Instant) -> Self {
        Self {
            average: 0,
            busy: 0,
            counted: now,
            period: now,
        }
    }

    /// Counts the time until `now` as time of tasks.
    fn advance(&mut self, now: Instant) {
        self.count(now, 0);
    }

    /// Counts the time until `now` as time of interrupts.
    fn busy(&mut self, now: Instant) {
        self.count(now, 1);
    }

    fn count(&mut self, now: Instant, rate: u64) {
        let passed = self
            .counted
            .max(now)
            .saturating_since(self.period)
            .as_nanos();
        let before = self.counted.saturating_since(self.period).as_nanos();
        self.counted = self.counted.max(now);
        let Some(whole) = (passed / PERIOD).checked_sub(1) else {
            self.busy += rate * (passed - before);
            return;
        };
        // The period that was open, as many as passed since, and one that is open now.
        self.busy += rate * (PERIOD - before);
        self.close(self.busy);
        let kept = power(whole);
        let full = rate * ONE;
        self.average = scaled(self.average, kept) + scaled(full, ONE - kept);
        self.busy = rate * (passed % PERIOD);
        self.period = Instant::from_nanos(
            self.period
                .as_nanos()
                .saturating_add_unsigned(passed - passed % PERIOD),
        );
    }

    /// Ends a period in which interrupts took `busy`.
    fn close(&mut self, busy: u64) {
        let busy = busy.min(PERIOD) * (ONE / PERIOD);
        self.average = scaled(self.average, KEPT) + scaled(busy, ONE - KEPT);
    }

    fn load(&self) -> Load {
        let parts = (self.average * 1024 + ONE / 2) / ONE;
        Load(u32::try_from(parts).unwrap_or(1024))
    }
}

/// Returns the share that is left after `periods` periods.
fn power(periods: u64) -> u64 {
    let (mut kept, mut base, mut periods) = (ONE, KEPT, periods);
    // At most 64 rounds.
    while periods > 0 {
        if periods & 1 == 1 {
            kept = scaled(kept, base);
        }
        base = scaled(base, base);
        periods >>= 1;
    }
    kept
}

/// A part of `value`, both at most [`ONE`].
#[expect(
    clippy::cast_possible_truncation,
    reason = "the result is at most `value`"
)]
const fn scaled(value: u64, part: u64) -> u64 {
    ((value as u128 * part as u128) >> 32) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn at(nanos: i64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Makes interrupts of `length` every `period` from `from` until `until`.
    fn interrupted(clock: &mut RunClock, from: i64, until: i64, period: i64, length: i64) {
        let mut now = from;
        while now < until {
            clock.interrupt_begins(at(now));
            clock.interrupt_ends(at(now + length));
            now += period;
        }
    }

    #[test]
    fn the_clock_stands_while_interrupts_run() {
        let mut clock = RunClock::new(at(100));
        clock.interrupt_begins(at(200));
        assert_eq!(clock.at(at(250)), RunTime::from_nanos(100));
        // A nested one changes nothing.
        clock.interrupt_begins(at(260));
        clock.interrupt_ends(at(300));
        assert_eq!(clock.at(at(350)), RunTime::from_nanos(150));
        clock.interrupt_ends(at(400));
        assert_eq!(clock.at(at(400)), RunTime::from_nanos(200));
    }

    #[test]
    fn the_load_is_the_part_that_interrupts_take() {
        let mut clock = RunClock::new(at(0));
        assert_eq!(clock.load(at(0)), Load::NONE);
        interrupted(&mut clock, 0, 2_000 * MS, 100_000, 25_000);
        let load = clock.load(at(2_000 * MS)).get();
        assert!((252..=260).contains(&load), "a quarter is 256: {load}");
        // Half of it counts after 32 periods, nothing after thousands.
        let half = clock.load(at(2_000 * MS + 33 * (1 << 20))).get();
        assert!((120..=136).contains(&half), "{half}");
        assert_eq!(clock.load(at(90_000 * MS)), Load::NONE);
    }

    #[test]
    fn one_interrupt_that_lasts_takes_all() {
        let mut clock = RunClock::new(at(0));
        clock.interrupt_begins(at(5));
        clock.interrupt_ends(at(100_000 * MS));
        assert_eq!(clock.load(at(100_000 * MS)).get(), 1_024);
        assert_eq!(clock.at(at(100_000 * MS)), RunTime::from_nanos(5));
    }

    #[test]
    fn times_that_go_back_change_nothing() {
        let mut clock = RunClock::new(at(1_000));
        clock.interrupt_begins(at(2_000));
        clock.interrupt_ends(at(1_500));
        clock.interrupt_ends(at(9_000));
        assert_eq!(clock.at(at(3_000)), RunTime::from_nanos(2_000));
        assert_eq!(clock.at(at(0)), RunTime::ZERO);
        assert_eq!(clock.load(at(500)), Load::NONE);
    }

    #[test]
    fn an_instant_of_the_run_queue_is_later_on_the_wall_by_what_interrupts_took() {
        let mut clock = RunClock::new(at(0));
        interrupted(&mut clock, 0, 10 * MS, MS, 100_000);
        let now = at(20 * MS);
        assert_eq!(clock.at(now), RunTime::from_nanos(19_000_000));
        assert_eq!(
            clock.expiry(RunTime::from_nanos(24_000_000), now),
            at(25 * MS)
        );
        assert_eq!(
            clock.expiry(RunTime::from_nanos(18_000_000), now),
            at(19 * MS)
        );
    }
}
