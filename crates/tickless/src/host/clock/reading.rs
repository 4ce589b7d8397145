//! What a thread knows of the time: its last exact reading, and what may be extrapolated from it.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant as StdInstant;

use tickless_core::time::Instant;

use super::{Anchor, Clock, Counter, MARGIN_PPM, Pair, SKEW, WINDOW, counter};

/// How far apart, in nanoseconds, the two counter readings around an exact one may lie, if that is to be extrapolated.
/// Several times what the three take; less than anything that interrupts them.
pub(super) const WIDTH: u64 = 150;
/// How often an exact reading is taken in search of a narrow one. A second interruption in a row is rare, and a machine
/// on which all of them are wide is left to the kernel's clock.
const TRIES: u32 = 3;

/// An exact time between two readings of the counter.
#[derive(Clone, Copy, Debug)]
struct Sandwich {
    before: u64,
    exact: Instant,
    behind: u64,
}

impl Sandwich {
    #[inline]
    fn take(anchor: Anchor) -> Self {
        let before = counter::read();
        let exact = anchor.to_core(StdInstant::now());
        let behind = counter::read();
        Self {
            before,
            exact,
            behind,
        }
    }

    /// Whether bounds that start from here are good, where a cycle takes `rate` nanoseconds times 2^-32.
    #[inline]
    fn is_narrow(&self, rate: u64) -> bool {
        self.behind.wrapping_sub(self.before).saturating_mul(rate) >> 32 <= WIDTH
    }
}

/// A thread's last exact reading.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The counter just before the reading, for upper bounds.
    before: Cell<u64>,
    /// The counter just behind it, for lower bounds.
    behind: Cell<u64>,
    nanos: Cell<i64>,
    /// Cycles for which it may be extrapolated; 0 if it may not.
    window: Cell<u64>,
    /// Nanoseconds for one cycle, times 2^32, widened upwards and downwards.
    rate_up: Cell<u64>,
    rate_down: Cell<u64>,
    /// The last upper bound that was answered.
    latest: Cell<i64>,
}

impl Reading {
    pub(crate) const fn new() -> Self {
        Self {
            before: Cell::new(0),
            behind: Cell::new(0),
            nanos: Cell::new(0),
            window: Cell::new(0),
            rate_up: Cell::new(0),
            rate_down: Cell::new(0),
            latest: Cell::new(0),
        }
    }

    /// The last exact reading; the beginning of time if there was none.
    #[inline]
    pub(crate) fn last(&self) -> Instant {
        Instant::from_nanos(self.nanos.get())
    }

    /// A time that is not behind the true one, and not behind the last that was answered here.
    #[inline]
    pub(crate) fn at_latest(&self, clock: &Clock) -> Instant {
        self.at_latest_or(counter::read(), || self.renew(clock))
    }

    /// As [`at_latest`](Self::at_latest) while the counter shows `cycles`; `renew` is asked when the last exact reading
    /// is too old.
    #[inline]
    fn at_latest_or(&self, cycles: u64, renew: impl FnOnce() -> Instant) -> Instant {
        let elapsed = cycles.wrapping_sub(self.before.get());
        let bound = if elapsed < self.window.get() {
            self.after(elapsed, self.rate_up.get(), SKEW)
        } else {
            renew().as_nanos() + SKEW
        };
        // A bound that starts from a new reading may be better than the one before, and so earlier.
        self.latest.set(self.latest.get().max(bound));
        Instant::from_nanos(self.latest.get())
    }

    /// A time that is not ahead of the true one.
    #[inline]
    pub(crate) fn at_earliest(&self, clock: &Clock) -> Instant {
        self.at_earliest_or(|| self.renew(clock))
    }

    /// A time that is not ahead of the true one, or what `renew` answers when the last exact reading is too old.
    #[inline]
    pub(crate) fn at_earliest_or(&self, renew: impl FnOnce() -> Instant) -> Instant {
        let elapsed = counter::read().wrapping_sub(self.behind.get());
        if elapsed < self.window.get() {
            return Instant::from_nanos(self.after(elapsed, self.rate_down.get(), 0));
        }
        renew()
    }

    #[inline]
    fn after(&self, cycles: u64, rate: u64, margin: i64) -> i64 {
        // The window is 50 µs, so the product is far below 2^64.
        let nanos = (cycles * rate) >> 32;
        self.nanos.get() + nanos.cast_signed() + margin
    }

    /// The true time, asked for; extrapolations start from here.
    pub(crate) fn renew(&self, clock: &Clock) -> Instant {
        self.renew_by(&clock.counter, || Sandwich::take(clock.anchor))
    }

    /// As [`renew`](Self::renew), by what `take` reads.
    #[inline]
    fn renew_by(&self, counter: &Counter, mut take: impl FnMut() -> Sandwich) -> Instant {
        let mut taken = take();
        // Relaxed: the word carries all there is.
        let rate = counter.rate.load(Ordering::Relaxed);
        if rate == 0 {
            self.window.set(0);
            self.nanos.set(taken.exact.as_nanos());
            counter.calibrate(Pair {
                cycles: taken.behind,
                nanos: taken.exact.as_nanos(),
            });
            return taken.exact;
        }
        let mut tries = 1;
        while !taken.is_narrow(rate) && tries < TRIES {
            taken = take();
            tries += 1;
        }
        self.verify(counter, taken);
        self.before.set(taken.before);
        self.behind.set(taken.behind);
        self.nanos.set(taken.exact.as_nanos());
        self.rate_up.set(rate + rate / (1_000_000 / MARGIN_PPM));
        self.rate_down.set(rate - rate / (1_000_000 / MARGIN_PPM));
        self.window.set(if taken.is_narrow(rate) {
            (WINDOW << 32) / rate.max(1)
        } else {
            0
        });
        taken.exact
    }

    /// Compares what would have been extrapolated with what is true.
    fn verify(&self, counter: &Counter, taken: Sandwich) {
        let elapsed = taken.before.wrapping_sub(self.before.get());
        if elapsed >= self.window.get() {
            return;
        }
        let upper = self.after(
            taken.behind.wrapping_sub(self.before.get()),
            self.rate_up.get(),
            SKEW,
        );
        let lower = self.after(
            taken.before.saturating_sub(self.behind.get()),
            self.rate_down.get(),
            -SKEW,
        );
        let exact = taken.exact.as_nanos();
        if exact > upper || exact < lower {
            counter.strike();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Refusal;
    use super::*;

    /// Reads until the counter is in use; `None` where it is refused.
    fn calibrated() -> Option<(Clock, Reading)> {
        let clock = Clock::new();
        let reading = Reading::new();
        loop {
            reading.renew(&clock);
            match clock.counter.judge() {
                Ok(_) => return Some((clock, reading)),
                Err(Refusal::Calibrating) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return None,
            }
        }
    }

    /// A counter that is in use, with one cycle for each nanosecond.
    fn scripted() -> Counter {
        let counter = Counter::new();
        counter.rate.store(1 << 32, Ordering::Relaxed);
        counter
    }

    /// A reading of the time `before + first`, behind which so many nanoseconds pass until the counter is read again.
    fn sandwich(before: u64, first: u64, second: u64) -> Sandwich {
        Sandwich {
            before,
            exact: Instant::from_nanos((before + first).cast_signed()),
            behind: before + first + second,
        }
    }

    /// What is added at most to the true time, of which the last line of the decision on the clock speaks.
    const ADDED: i64 =
        SKEW + WIDTH.cast_signed() + (WINDOW * MARGIN_PPM / 1_000_000).cast_signed() + 1;

    /// Issue 8: a thread that lost its CPU within a reading had upper bounds that were later by that for 50 µs.
    #[test]
    fn a_reading_that_was_interrupted_is_taken_again() {
        let counter = scripted();
        let reading = Reading::new();
        let mut script = [
            sandwich(1_000_000, 34_000, 20),
            sandwich(1_040_000, 20, 34_000),
            sandwich(1_080_000, 20, 20),
        ]
        .into_iter();
        let exact = reading.renew_by(&counter, || script.next().expect("three are enough"));
        assert_eq!(exact, Instant::from_nanos(1_080_020));
        for later in [0, 1, 100, 49_000] {
            let truth = 1_080_040 + later;
            let bound = reading.at_latest_or(truth, || panic!("it is extrapolated"));
            let added = bound.as_nanos() - truth.cast_signed();
            assert!((0..=ADDED).contains(&added), "{added} ns at {truth}");
        }
    }

    #[test]
    fn what_is_never_narrow_is_not_extrapolated() {
        let counter = scripted();
        let reading = Reading::new();
        let mut now = 1_000_000;
        let mut taken = 0;
        let mut renew = || {
            reading.renew_by(&counter, || {
                now += 40_000;
                taken += 1;
                sandwich(now, 34_000, 20)
            })
        };
        renew();
        let bound = reading.at_latest_or(0, &mut renew);
        assert_eq!(
            bound,
            Instant::from_nanos(1_000_000 + 6 * 40_000 + 34_000 + SKEW)
        );
        assert_eq!(taken, 2 * TRIES, "and the search for a narrow one ends");
        assert!(counter.judge().is_ok(), "nothing is wrong with the counter");
    }

    /// Issue 8: the deadline of the second of two sleeps of one length could lie before that of the first.
    #[test]
    fn upper_bounds_never_go_back() {
        let counter = scripted();
        let reading = Reading::new();
        reading.renew_by(&counter, || sandwich(1_000_000, 140, 0));
        let extrapolated = reading.at_latest_or(1_049_999, || panic!("it is extrapolated"));
        let renewed = reading.at_latest_or(1_050_001, || {
            reading.renew_by(&counter, || sandwich(1_050_001, 0, 10))
        });
        assert!(
            extrapolated.as_nanos() > 1_050_001 + SKEW,
            "or it proves nothing"
        );
        assert!(renewed >= extrapolated);
        let later = reading.at_latest_or(1_060_000, || panic!("it is extrapolated"));
        assert!(
            later > renewed,
            "and are as good as ever once the time has come"
        );
        assert!(later.as_nanos() <= 1_060_000 + ADDED);
    }

    #[test]
    fn the_bounds_hold_around_the_exact_time() {
        let Some((clock, reading)) = calibrated() else {
            return;
        };
        for round in 0..20_000_u32 {
            if round % 7 == 0 {
                reading.renew(&clock);
            }
            let before = clock.exact();
            let latest = reading.at_latest(&clock);
            assert!(
                latest >= before,
                "an upper bound of {latest:?} at {before:?} or later"
            );
            let earliest = reading.at_earliest(&clock);
            let behind = clock.exact();
            assert!(
                earliest.as_nanos() <= behind.as_nanos() + SKEW,
                "a lower bound of {earliest:?} before {behind:?}"
            );
        }
        assert!(
            clock.counter.judge().is_ok(),
            "no strike may come from normal operation"
        );
    }

    #[test]
    fn a_counter_that_drifts_is_given_up() {
        let Some((clock, reading)) = calibrated() else {
            return;
        };
        // Twice as fast as it is: every verification fails.
        let rate = clock.counter.rate.load(Ordering::Relaxed);
        let mut attempts = 0;
        while clock.counter.judge().is_ok() && attempts < 100_000 {
            clock.counter.rate.store(rate * 2, Ordering::Relaxed);
            reading.renew(&clock);
            // Long enough for the error to be larger than what readings may seem reordered by.
            let start = StdInstant::now();
            while start.elapsed() < Duration::from_micros(5) {}
            attempts += 1;
        }
        assert_eq!(clock.counter.judge(), Err(Refusal::Drifted));
        let before = clock.exact();
        assert!(reading.renew(&clock) >= before);
        assert_eq!(
            reading.window.get(),
            0,
            "the thread fell back to the kernel's clock"
        );
    }

    #[test]
    fn upper_bounds_of_the_machine_never_go_back() {
        let clock = Clock::new();
        let reading = Reading::new();
        let start = StdInstant::now();
        let mut last = Instant::from_nanos(0);
        while start.elapsed() < Duration::from_millis(60) {
            let latest = reading.at_latest(&clock);
            assert!(latest >= last, "{latest:?} behind {last:?}");
            last = latest;
        }
        assert!(!matches!(clock.counter.judge(), Err(Refusal::Drifted)));
    }
}
