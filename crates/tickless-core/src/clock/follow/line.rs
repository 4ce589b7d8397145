//! The line, an estimate of a reference clock by a linear function of the counter.

use super::Sandwich;

/// The time for which a line is followed, in nanoseconds. Fitting the next line costs about as much as four readings.
pub const WINDOW: u64 = 50_000;
/// Returns the largest distance by which reference and line diverge in `nanos`: 1,000 parts in a million, the width of
/// the range in which clocks are steered (spec TIM-27).
#[inline]
const fn drifted(nanos: u64) -> u64 {
    // 1/1024 and 1/32768 make 1,007 parts in a million, without a division.
    (nanos >> 10) + (nanos >> 15) + 1
}

/// Returns `error`, or 1 ms more under `cfg(wide_clock)`. `cargo xtask repeat --wide-clock` sets it: a test that
/// takes the clock for exact then fails always, and not once in thousands of runs.
const fn widened(error: u64) -> u64 {
    if cfg!(wide_clock) {
        error.saturating_add(1_000_000)
    } else {
        error
    }
}

/// The distance, in nanoseconds, between the two counter readings around a reading of the reference that is as narrow as
/// can be expected: the three readings take 55 ns on an idle processor, and less than any interruption.
pub(super) const NARROW: u64 = 100;
/// The largest distance, in nanoseconds, between the two counter readings around a reading of the reference that may
/// move the line. On a busy virtual machine all instructions take ten times as long for some milliseconds: then the
/// three readings take 500 to 900 ns, and a clock that waited for a narrow reading would read the reference each time.
pub const WIDTH: u64 = 1_000;
/// The largest error of a line that is followed, in nanoseconds.
pub const ERROR: u64 = widened(WIDTH + 2 * DRIFT);

/// The largest distance between reference and line that can arise within a window.
const DRIFT: u64 = drifted(WINDOW);
/// The time over which the rate is measured, in nanoseconds.
const BASELINE: i64 = 100_000_000;
/// The largest plausible change of the rate, in parts per million. A larger change means that one of the two clocks
/// paused.
const RATE_PPM: u64 = 2_000;
/// The longest time, in nanoseconds, after which a line is judged. If a line was not used for longer, a distance from
/// the reference proves nothing.
const JUDGED_FOR: u64 = 20_000_000;
/// The largest distance, in nanoseconds, by which the counter of another CPU may be before the start of a line. Beyond
/// this distance the counter was set back, as on a machine that slept.
const BEHIND: u64 = 1_000_000;
/// The error of a line about which nothing is known yet.
const UNKNOWN: u64 = u64::MAX;

/// A line of the clock. For `span` cycles from the counter value `start` on, the clock shows
/// `base + ((cycles - start) * rate + residue) / 2^32`.
///
/// Invariant *line*: a line starts at a counter value for which no reading used the previous line, and its first time
/// is not below the end of the previous line. So all lines together are one function of the counter that never falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) start: u64,
    /// Zero if nothing may be extrapolated.
    pub(super) span: u64,
    /// The slope of the line: nanoseconds for a cycle, times `2^32`. Zero if each reading reads the reference itself.
    pub(super) rate: u64,
    /// The fraction of a nanosecond to add to the base, times `2^32`; below `2^32`.
    residue: u64,
    pub(super) base: i64,
    /// The largest error of the clock at the start.
    pub(super) error: u64,
    /// The measured rate: nanoseconds for a cycle, times `2^32`.
    measured: u64,
    /// The counter value at which the measurement of the rate began; zero if it has not begun.
    origin_cycles: u64,
    origin_time: i64,
}

/// The position of a counter value relative to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePosition {
    /// The value is on the line.
    On(i64),
    /// The value is a little before the line: the counter of another CPU shows less, or the value was read early.
    Before(i64),
    /// The line ends before the value, or the counter was set back.
    Off,
}

/// The result of comparing a new reading of the reference with the line so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineCheck {
    /// The reading is within the error of the line.
    Fits,
    /// The reading is off the line, and no steering explains that.
    Misfit,
    /// The reading neither confirms nor refutes the line.
    Unjudged,
}

#[inline]
fn scaled(cycles: u64, rate: u64) -> i128 {
    i128::from(cycles) * i128::from(rate)
}

/// Splits a fixed-point number into whole nanoseconds and the fraction.
fn split(fixed: i128) -> (i64, u64) {
    let whole = i64::try_from(fixed >> 32).unwrap_or(if fixed < 0 { i64::MIN } else { i64::MAX });
    let rest = u64::try_from(fixed & 0xFFFF_FFFF).unwrap_or(0);
    (whole, rest)
}

impl Line {
    pub(super) const WORDS: usize = 9;
    /// The number of words that a reading needs.
    pub(super) const FAST: usize = 6;

    /// Makes a line without a range, so that each reading reads the reference itself. No reading so far is more than
    /// `floor`.
    pub(super) const fn ask(floor: i64) -> Self {
        Self {
            start: 0,
            span: 0,
            rate: 0,
            residue: 0,
            base: floor,
            error: 0,
            measured: 0,
            origin_cycles: 0,
            origin_time: 0,
        }
    }

    /// Makes a line of which only the rate is known. No reading so far is more than `floor`.
    pub(super) const fn unknown(rate: u64, floor: i64) -> Self {
        Self {
            rate,
            measured: rate,
            error: UNKNOWN,
            ..Self::ask(floor)
        }
    }

    pub(super) const fn words(&self) -> [u64; Self::WORDS] {
        [
            self.start,
            self.span,
            self.rate,
            self.residue,
            self.base.cast_unsigned(),
            self.error,
            self.measured,
            self.origin_cycles,
            self.origin_time.cast_unsigned(),
        ]
    }

    /// Returns the words that a reading needs.
    const fn fast(&self) -> [u64; Self::FAST] {
        let [start, span, rate, residue, base, error, ..] = self.words();
        [start, span, rate, residue, base, error]
    }

    pub(super) const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [
            start,
            span,
            rate,
            residue,
            base,
            error,
            measured,
            origin_cycles,
            origin_time,
        ] = words;
        Self {
            start,
            span,
            rate,
            residue,
            base: base.cast_signed(),
            error,
            measured,
            origin_cycles,
            origin_time: origin_time.cast_signed(),
        }
    }

    /// Returns the time that the clock shows at `cycles`, from the first words of a line; `None` if the line does not
    /// cover `cycles`.
    #[inline]
    pub(super) const fn shows(fast: [u64; Self::FAST], cycles: u64) -> Option<i64> {
        let [start, span, rate, residue, base, _error] = fast;
        let gone = cycles.wrapping_sub(start);
        if gone >= span {
            return None;
        }
        // A window is 50 µs, so the product is far below 2^63.
        let nanos = (gone.wrapping_mul(rate).wrapping_add(residue)) >> 32;
        Some(base.cast_signed().wrapping_add(nanos.cast_signed()))
    }

    /// Returns the largest error of the clock at the time `nanos`.
    #[inline]
    pub(super) const fn error_at(fast: [u64; Self::FAST], nanos: i64) -> i64 {
        let [.., base, error] = fast;
        let gone = nanos.wrapping_sub(base.cast_signed()).cast_unsigned();
        (widened(error) + drifted(gone)).cast_signed()
    }

    /// Returns the rate and the base of a line that is nowhere before the time of this line plus its largest error, and
    /// at most a few nanoseconds after it. To compute a time on the returned line needs neither the residue nor the
    /// growth of the error.
    pub(super) const fn latest(fast: [u64; Self::FAST]) -> (u64, i64) {
        let [_, _, rate, _, base, error] = fast;
        // What the error grows by, rounded up.
        let rate = rate.saturating_add((rate >> 10) + (rate >> 15) + 2);
        let base = base.cast_signed().saturating_add_unsigned(widened(error));
        // One nanosecond for the residue, which counts for a thousandth more once it is gone by, one that the error
        // grows by at least, one by which the product is rounded down.
        (rate, base.saturating_add(4))
    }

    /// Returns a line as [`latest`](Self::latest) does. The line is nowhere after the time of this line minus its
    /// largest error, and at most a few nanoseconds before it.
    pub(super) const fn earliest(fast: [u64; Self::FAST]) -> (u64, i64) {
        let [_, _, rate, _, base, error] = fast;
        // What the error grows by, rounded up.
        let rate = rate.saturating_sub((rate >> 10) + (rate >> 15) + 2);
        let base = base.cast_signed().saturating_sub_unsigned(widened(error));
        // One nanosecond that the error grows by at least, one by which what the line shows is rounded down.
        (rate, base.saturating_sub(2))
    }

    pub(super) const fn error_for(&self, nanos: i64) -> i64 {
        Self::error_at(self.fast(), nanos)
    }

    /// Returns the first counter value at which `nanos` is certainly over, or the end of the line.
    pub(super) fn cycles_at(&self, nanos: i64) -> u64 {
        let is_over = |gone: u64| {
            let shown = self.base.cast_unsigned() + ((gone * self.rate + self.residue) >> 32);
            let shown = shown.cast_signed();
            shown - self.error_for(shown) >= nanos
        };
        // The shown time grows with the counter, and what it may be off by a thousandth as fast.
        let (mut low, mut high) = (0, self.span);
        while low < high {
            let middle = low.midpoint(high);
            if is_over(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.start.wrapping_add(high)
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.rate == 0
    }

    pub(super) const fn measured(&self) -> u64 {
        self.measured
    }

    pub(super) fn place(&self, cycles: u64) -> LinePosition {
        if let Some(nanos) = Self::shows(self.fast(), cycles) {
            return LinePosition::On(nanos);
        }
        let before = self.start.wrapping_sub(cycles);
        let is_little = scaled(before, self.rate) >> 32 <= i128::from(BEHIND);
        if before != 0 && is_little && self.error != UNKNOWN && self.span != 0 {
            return LinePosition::Before(self.base);
        }
        LinePosition::Off
    }

    /// Returns the latest time that a reading on this line can have returned.
    pub(super) fn end(&self) -> i64 {
        let whole = (scaled(self.span, self.rate) + i128::from(self.residue)) >> 32;
        let whole = i64::try_from(whole).unwrap_or(i64::MAX);
        self.base.saturating_add(whole)
    }

    /// Returns the nanoseconds of `cycles`, rounded up.
    pub(super) fn nanos_of(&self, cycles: u64) -> u64 {
        let nanos = (scaled(cycles, self.measured) >> 32) + 1;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Returns the line to follow from `taken` on, and the result of comparing `taken` with this line.
    ///
    /// When the counter reached `taken.before` the reference was between `nanos - width` and `nanos`, where the width
    /// has a cycle more than what lies between the readings. A reading of the counter may come a cycle later than the
    /// counter's step, so the error has one, too: a cycle takes up to 42 ns on AArch64. If this line passes through that
    /// interval, the new line continues it, because the reading gives no new information. Otherwise the new line begins
    /// at the nearer end of the interval, or at the latest time already shown if that is later. In the latter case it
    /// is slower until the reference has caught up.
    pub(super) fn next(&self, taken: &Sandwich) -> (Self, LineCheck) {
        let width = self.nanos_of(taken.behind.wrapping_sub(taken.before).wrapping_add(1));
        let latest = taken.nanos;
        let earliest = latest.saturating_sub_unsigned(width);
        let floor = self.end();
        let gone = taken.before.wrapping_sub(self.start).cast_signed();
        let is_known = self.error != UNKNOWN && gone >= 0;
        let gone = gone.unsigned_abs();

        let predicted =
            (i128::from(self.base) << 32) + scaled(gone, self.rate) + i128::from(self.residue);
        let (lowest, highest) = (i128::from(earliest) << 32, i128::from(latest) << 32);
        // What was not predicted begins at the upper end: it may not be behind what the reference itself answered.
        let fitted = if is_known {
            predicted.clamp(lowest, highest)
        } else {
            highest
        };
        let begins = fitted.max(i128::from(floor) << 32);
        let (base, residue) = split(begins);

        // How wrong it may be there: what the reading leaves open, or what the line so far did.
        let ahead = base.saturating_sub(latest).max(0).unsigned_abs();
        let elapsed = self.nanos_of(gone.saturating_sub(self.span));
        let carried = if is_known && fitted == predicted {
            self.error.saturating_add(drifted(WINDOW + elapsed))
        } else {
            UNKNOWN
        };
        // One more, because the reference is rounded down.
        let cycle = self.nanos_of(1) + 1;
        let error = width
            .saturating_add(cycle)
            .min(carried)
            .saturating_add(ahead);

        let verdict = self.judge(predicted, (lowest, highest), elapsed, is_known);
        let (measured, origin) = self.measure(taken, width);
        let mut next = Self {
            start: taken.before,
            span: 0,
            rate: measured,
            residue,
            base,
            error,
            measured,
            origin_cycles: origin.0,
            origin_time: origin.1,
        };
        if error > WIDTH + DRIFT {
            // Not to be extrapolated from: what was read, and not behind what was shown.
            next.start = taken.behind;
            next.base = latest.max(floor);
            next.residue = 0;
            return (next, verdict);
        }
        next.span = (WINDOW << 32) / measured.max(1);
        // To be where the reference is by the end, and never less than at half its rate.
        let slower = u128::from(measured) * u128::from(ahead) / u128::from(WINDOW);
        let slower = u64::try_from(slower).unwrap_or(u64::MAX).min(measured / 2);
        next.rate = measured - slower;
        (next, verdict)
    }

    fn judge(
        &self,
        predicted: i128,
        (lowest, highest): (i128, i128),
        elapsed: u64,
        is_known: bool,
    ) -> LineCheck {
        if !is_known || self.span == 0 || elapsed > JUDGED_FOR {
            return LineCheck::Unjudged;
        }
        let off = (lowest - predicted).max(predicted - highest).max(0) >> 32;
        let allowed = self.error.saturating_add(drifted(WINDOW + elapsed));
        if off > i128::from(allowed) {
            LineCheck::Misfit
        } else {
            LineCheck::Fits
        }
    }

    /// Returns the rate, updated by `taken`, and the beginning of its measurement.
    fn measure(&self, taken: &Sandwich, width: u64) -> (u64, (u64, i64)) {
        let origin = (self.origin_cycles, self.origin_time);
        if width > WIDTH {
            return (self.measured, origin);
        }
        let here = (taken.before, taken.nanos);
        let nanos = taken.nanos.saturating_sub(self.origin_time);
        let cycles = taken.before.wrapping_sub(self.origin_cycles);
        if self.origin_cycles == 0 || cycles.cast_signed() <= 0 || nanos < 0 {
            return (self.measured, here);
        }
        if nanos < BASELINE {
            return (self.measured, origin);
        }
        let rate = (u128::from(nanos.unsigned_abs()) << 32) / u128::from(cycles);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let change = rate.abs_diff(self.measured);
        let most = self.measured / (1_000_000 / RATE_PPM);
        (if change <= most { rate } else { self.measured }, here)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A simulated reference and counter, both with rates relative to true time (nanoseconds).
    #[derive(Clone, Copy, Debug)]
    struct World {
        truth: u64,
        reference: i64,
        cycles: u64,
    }

    /// The number of cycles in a nanosecond.
    const CYCLES: u64 = 3;

    impl World {
        /// Makes the state a millisecond after the reference began.
        const fn new(cycles: u64) -> Self {
            Self {
                truth: 0,
                reference: 1_000_000,
                cycles,
            }
        }

        fn pass(&mut self, nanos: u64, ppm: i64) {
            self.truth += nanos;
            self.cycles += nanos * CYCLES;
            let nanos = i64::try_from(nanos).unwrap();
            self.reference += nanos + nanos * ppm / 1_000_000;
        }
    }

    fn sandwich(world: &mut World, first: u64, second: u64) -> Sandwich {
        let before = world.cycles;
        world.pass(first, 0);
        let nanos = world.reference;
        world.pass(second, 0);
        Sandwich {
            before,
            nanos,
            behind: world.cycles,
        }
    }

    fn start(world: &mut World) -> Line {
        let rate = (1 << 32) / CYCLES;
        Line::unknown(rate, i64::MIN)
            .next(&sandwich(world, 20, 20))
            .0
    }

    /// FOLLOW-3.
    #[test]
    fn a_reading_that_says_nothing_new_moves_nothing() {
        let mut world = World::new(77);
        let first = start(&mut world);
        world.pass(51_000, 0);
        // What the first one would show.
        let goes_on = Line {
            span: 2 * first.span,
            ..first
        };
        let expected = goes_on.place(world.cycles);
        let at = world.cycles;
        let (second, verdict) = first.next(&sandwich(&mut world, 35, 5));
        assert_eq!(verdict, LineCheck::Fits);
        assert_eq!(second.place(at), expected);
        assert_eq!(second.rate, first.rate);
    }

    /// FOLLOW-4, issue 10: a preemption between two halves of a reading must not widen a bound for the window that
    /// follows.
    #[test]
    fn a_wide_reading_moves_nothing_either() {
        let mut world = World::new(77);
        let first = start(&mut world);
        world.pass(51_000, 0);
        let (second, _) = first.next(&sandwich(&mut world, 20, 34_000));
        assert!(second.error <= first.error + DRIFT + 1, "{second:?}");
        let LinePosition::On(shown) = second.place(world.cycles) else {
            panic!("{second:?}");
        };
        assert!(shown.abs_diff(world.reference) <= second.error + DRIFT);
    }

    #[test]
    fn what_is_never_narrow_is_not_extrapolated() {
        let mut world = World::new(77);
        let mut line = Line::unknown((1 << 32) / CYCLES, i64::MIN);
        for _ in 0..10 {
            line = line.next(&sandwich(&mut world, 34_000, 34_000)).0;
            assert_eq!(line.span, 0, "{line:?}");
        }
    }

    /// FOLLOW-8.
    #[test]
    fn a_counter_that_was_set_back_begins_anew() {
        let mut world = World::new(1 << 40);
        let first = start(&mut world);
        world.pass(51_000, 0);
        world.cycles = 5;
        assert_eq!(first.place(world.cycles), LinePosition::Off);
        let (second, verdict) = first.next(&sandwich(&mut world, 20, 20));
        assert_eq!(verdict, LineCheck::Unjudged, "no fault of the counter");
        assert!(second.base >= first.end());
        assert!(second.span > 0);
    }

    /// FOLLOW-8.
    #[test]
    fn a_counter_that_runs_off_is_told_from_steering() {
        for (ppm, expected) in [
            (900, LineCheck::Fits),
            (-900, LineCheck::Fits),
            (9_000, LineCheck::Misfit),
            (-9_000, LineCheck::Misfit),
        ] {
            let mut world = World::new(77);
            let line = start(&mut world);
            world.pass(51_000, ppm);
            assert_eq!(
                line.next(&sandwich(&mut world, 20, 20)).1,
                expected,
                "{ppm}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A counter of 24 MHz, as AArch64 has it, shows one value for 42 ns.
        #[test]
        fn the_error_of_a_line_covers_the_steps_of_a_coarse_counter(
            offset in 0_u64..1_000,
            steps in proptest::collection::vec((0_u64..70, 0_u64..70, 0_u64..60_000, 0_u64..49_000), 1..40),
        ) {
            let cycles = |truth: u64| (truth + offset) * 24 / 1_000;
            let rate = (1_000_u64 << 32) / 24;
            let mut truth = 1_000_000_u64;
            let mut line = Line::unknown(rate, i64::MIN);
            for (first, second, gap, within) in steps {
                let before = cycles(truth);
                let nanos = (truth + first).cast_signed();
                truth += first + second;
                line = line.next(&Sandwich { before, nanos, behind: cycles(truth) }).0;
                let read = truth + within;
                if let LinePosition::On(shown) = line.place(cycles(read)) {
                    let off = shown.abs_diff(read.cast_signed());
                    let most = line.error_for(shown).cast_unsigned();
                    prop_assert!(off <= most, "{off} ns off, at most {most}");
                }
                truth += gap.max(within);
            }
        }
    }

    /// FOLLOW-3: a line that is ahead of the reference is slower until the reference has caught up.
    #[test]
    fn a_line_that_is_ahead_is_caught_up_with_by_its_end() {
        let mut world = World::new(77);
        let line = start(&mut world);
        world.pass(49_970, -1_000);
        let (ahead, _) = line.next(&sandwich(&mut world, 5, 5));
        assert!(ahead.base > world.reference + 20, "{ahead:?}");
        world.pass(49_980, 0);
        let LinePosition::On(shown) = ahead.place(world.cycles) else {
            panic!("{ahead:?}");
        };
        assert!(
            shown.abs_diff(world.reference) <= 8,
            "{shown} at {}",
            world.reference
        );
    }

    #[test]
    fn a_moment_is_over_from_its_cycle_on_and_not_before() {
        let mut world = World::new(77);
        let line = start(&mut world);
        for ahead in [-5, 0, 1, 7, 1_000, 49_000, 1_000_000] {
            let when = line.base + ahead;
            let cycles = line.cycles_at(when);
            let earliest = |cycles| match line.place(cycles) {
                LinePosition::On(nanos) => Some(nanos - line.error_for(nanos)),
                _ => None,
            };
            assert!(
                earliest(cycles).is_none_or(|earliest| earliest >= when),
                "{ahead}"
            );
            let before = earliest(cycles.wrapping_sub(1));
            assert!(before.is_none_or(|earliest| earliest < when), "{ahead}");
        }
        assert_eq!(line.cycles_at(i64::MAX), line.start + line.span);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// ORACLE-10, FOLLOW-1, FOLLOW-5: for any steering of the reference and any preemption of a reader, all lines
        /// together never fall, and within its span a line is within its stated error of the reference.
        #[test]
        fn lines_never_fall_and_are_as_close_as_they_say(
            steps in proptest::collection::vec(
                (0_u64..400_000, -500_i64..=500, 0_u64..60, 0_u64..60, 0_u8..8, 0_u64..100), 1..300),
        ) {
            let mut world = World { truth: 0, reference: 5_000_000_000, cycles: 1 << 50 };
            let mut line = Line::unknown((1 << 32) / CYCLES, i64::MIN);
            let mut shown = i64::MIN;
            for (pause, ppm, first, second, preempted, part) in steps {
                // A reading somewhere in the pause, one at its end.
                for share in [part, 100 - part] {
                    world.pass(pause * share / 100, ppm);
                    if let LinePosition::On(now) = line.place(world.cycles) {
                        prop_assert!(now >= shown, "{} after {}", now, shown);
                        shown = now;
                        let off = now.abs_diff(world.reference);
                        prop_assert!(off <= line.error + DRIFT, "{} off, {:?}", off, line);
                        prop_assert!(line.error + DRIFT <= ERROR);
                    }
                }
                let second = if preempted == 0 { second * 1_000 } else { second };
                let first = if preempted == 1 { first * 1_000 } else { first };
                if line.place(world.cycles) == LinePosition::Off {
                    let taken = sandwich(&mut world, first, second);
                    let (next, verdict) = line.next(&taken);
                    prop_assert!(verdict != LineCheck::Misfit, "{:?} {:?} {:?}", line, taken, next);
                    prop_assert!(next.base >= line.end() && next.base >= shown, "{:?} behind {:?}", next, line);
                    line = next;
                    if line.span == 0 {
                        shown = line.base;
                    }
                }
            }
        }
    }
}
