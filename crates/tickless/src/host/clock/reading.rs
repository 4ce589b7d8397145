//! The last clock reading of a thread.

use std::cell::Cell;

use tickless_core::clock::follow::Kept;
use tickless_core::time::Instant;

use super::{CLOCK, counter};

/// The latest clock readings of a thread.
///
/// The bounds of the clock depend on how well its line is known: a more exact line may give an earlier time than the
/// line before. Nevertheless, the readings of one thread never go back.
#[derive(Debug)]
pub(crate) struct LastReading {
    earliest: Cell<i64>,
    latest: Cell<i64>,
    /// The number of the clock's line at the thread's last reading; [`NONE`] if no line was followed.
    line: Cell<u64>,
    kept: Kept,
    /// The function that reads the virtual clock that users of this thread see; `None` if they see the process's clock.
    /// While a function is set, no line is kept, so that each reading takes the slow path, which calls the function.
    shown: Cell<Option<fn() -> Instant>>,
}

/// The number that stands for no line: lines are counted from 0, and at most one new line begins every 50 µs.
const NONE: u64 = u64::MAX;

#[inline]
fn not_before(cell: &Cell<i64>, now: Instant) -> Instant {
    cell.set(cell.get().max(now.as_nanos()));
    Instant::from_nanos(cell.get())
}

impl LastReading {
    pub(crate) const fn new() -> Self {
        Self {
            earliest: Cell::new(0),
            latest: Cell::new(0),
            line: Cell::new(NONE),
            kept: Kept::new(),
            shown: Cell::new(None),
        }
    }

    /// Makes the users of this thread see another clock than the process's, or the process's clock again. The host
    /// continues to use the process's clock.
    pub(in crate::host) fn show(&self, clock: Option<fn() -> Instant>) {
        self.shown.set(clock);
        self.kept.forget();
    }

    /// Returns the function that was passed to [`show`](Self::show) last.
    pub(in crate::host) fn shown(&self) -> Option<fn() -> Instant> {
        self.shown.get()
    }

    /// Drops the line that a reading has kept, if users see another clock.
    #[inline]
    fn keep_only_own(&self) {
        if self.shown.get().is_some() {
            self.kept.forget();
        }
    }

    /// Returns a time that is over, the latest that is known without a reading.
    #[inline]
    pub(crate) fn last(&self) -> Instant {
        let recently = CLOCK.follower.recently();
        recently.unwrap_or_else(|| Instant::from_nanos(self.earliest.get()))
    }

    /// Returns the time, comparable with the readings of other threads; `None` if the line that the thread has kept
    /// does not reach.
    #[inline(always)]
    pub(crate) fn now(&self) -> Option<Instant> {
        CLOCK.kept_now(&self.kept)
    }

    /// Returns [`now`](Self::now), if the line does not reach.
    pub(crate) fn now_slow(&self) -> Instant {
        CLOCK.now_slow(&self.kept)
    }

    /// Returns a time that is not behind the true time.
    #[inline(always)]
    pub(crate) fn now_upper(&self) -> Instant {
        let cycles = counter::read();
        let latest = match CLOCK.latest(&self.kept, cycles) {
            Some(latest) => latest,
            None => self.latest_slow(cycles),
        };
        not_before(&self.latest, latest)
    }

    #[cold]
    #[inline(never)]
    fn latest_slow(&self, cycles: u64) -> Instant {
        let latest = CLOCK.latest_slow(&self.kept, cycles);
        self.keep_only_own();
        latest
    }

    /// Returns [`now_upper`](Self::now_upper) for the counter value `cycles`; `None` if the line that the thread has
    /// kept does not reach.
    #[inline(always)]
    pub(crate) fn latest_at(&self, cycles: u64) -> Option<Instant> {
        let latest = CLOCK.latest(&self.kept, cycles)?;
        Some(not_before(&self.latest, latest))
    }

    /// Returns [`latest_at`](Self::latest_at), if the line does not reach.
    pub(crate) fn latest_at_slow(&self, cycles: u64) -> Instant {
        not_before(&self.latest, self.latest_slow(cycles))
    }

    /// Returns the thread's last reading that is not behind the true time, or a later time; not more than a
    /// [window](super::WINDOW) before any thread's reading. [`None`] if such a time is not known without a reading.
    ///
    /// The time may be long ago: if no thread has read the clock since, no later time is known.
    #[inline(always)]
    pub(crate) fn asked_last(&self) -> Option<Instant> {
        let began = CLOCK.follower.kept_since(&self.kept)?;
        Some(began.max(Instant::from_nanos(self.latest.get())))
    }

    /// Returns a time that is not ahead of the true time.
    #[inline]
    pub(crate) fn now_lower(&self) -> Instant {
        let cycles = counter::read();
        self.earliest_at(cycles)
            .unwrap_or_else(|| self.earliest_slow(cycles))
    }

    /// Returns [`now_lower`](Self::now_lower) for the counter value `cycles`; `None` if the line that the thread has
    /// kept does not reach.
    #[inline(always)]
    pub(crate) fn earliest_at(&self, cycles: u64) -> Option<Instant> {
        let earliest = CLOCK.earliest(&self.kept, cycles)?;
        Some(not_before(&self.earliest, earliest))
    }

    /// Returns [`earliest_at`](Self::earliest_at), if the line does not reach.
    #[cold]
    #[inline(never)]
    pub(crate) fn earliest_slow(&self, cycles: u64) -> Instant {
        let earliest = CLOCK.earliest_slow(&self.kept, cycles);
        self.keep_only_own();
        not_before(&self.earliest, earliest)
    }

    /// Returns whether the kernel's clock was read since this thread's last call. If the thread reads the clock all the
    /// time, that happens every [`WINDOW`](super::WINDOW) at the latest.
    #[inline]
    pub(crate) fn has_new_line(&self) -> bool {
        let line = CLOCK.follower.line_number();
        if CLOCK.follower.is_following() {
            return self.line.replace(line) != line;
        }
        self.line.set(NONE);
        true
    }

    /// Returns the result that [`has_new_line`](Self::has_new_line) would return, and changes nothing.
    #[inline]
    pub(crate) fn is_behind_line(&self) -> bool {
        self.line.get() != CLOCK.follower.line_number()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant as StdInstant};

    use super::super::{Refusal, kernel_clock, time_stamp_counter};
    use super::*;

    /// Reads the clock until the counter is in use; `false` if the counter is refused.
    fn calibrated() -> bool {
        loop {
            LastReading::new().now_lower();
            match time_stamp_counter() {
                Ok(_) => return true,
                Err(Refusal::Calibrating) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return false,
            }
        }
    }

    #[test]
    fn the_bounds_hold_around_the_exact_time() {
        let is_used = calibrated();
        let reading = LastReading::new();
        for round in 0..100_000_u32 {
            if round % 1_000 == 0 {
                std::thread::sleep(Duration::from_micros(70));
            }
            let before = kernel_clock();
            let latest = reading.now_upper().as_nanos();
            assert!(
                latest >= before,
                "an upper bound of {latest} at {before} or later"
            );
            let earliest = reading.now_lower().as_nanos();
            let behind = kernel_clock();
            assert!(
                earliest <= behind,
                "a lower bound of {earliest} before {behind}"
            );
        }
        assert_eq!(
            time_stamp_counter().is_ok(),
            is_used,
            "no strike comes from normal operation"
        );
    }

    #[test]
    fn what_a_thread_is_told_never_goes_back() {
        let reading = LastReading::new();
        let start = StdInstant::now();
        let (mut earliest, mut latest, mut now) =
            (reading.now_lower(), reading.now_upper(), CLOCK.now());
        while start.elapsed() < Duration::from_millis(60) {
            let later = (reading.now_lower(), reading.now_upper(), CLOCK.now());
            assert!(later >= (earliest, latest, now), "{later:?}");
            assert!(later.0 >= earliest && later.1 >= latest && later.2 >= now);
            assert!(later.0 <= later.2, "what is over the clock has shown");
            (earliest, latest, now) = later;
        }
    }
}
