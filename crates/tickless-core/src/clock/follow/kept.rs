//! A thread's copy of the line that a [`Follower`] follows.
//!
//! The words of a line do not change while the clock follows the line, and each line has a number of its own. So a
//! thread copies the words once and computes all derived values at the copy. Each later reading compares the number of
//! the line and does one multiplication.

use core::cell::Cell;

use tickless_link::sync::Ordering;

use super::Follower;
use super::line::Line;
use crate::time::Instant;

/// A number that no line has.
const NOTHING: u64 = u64::MAX;

/// A thread's copy of the line that the clock follows.
///
/// Signal handlers must not use the copy. If a handler replaced the copy while its thread was reading, the thread would
/// mix the words of two lines.
#[derive(Debug)]
pub struct Kept {
    number: Cell<u64>,
    start: Cell<u64>,
    span: Cell<u64>,
    rate: Cell<u64>,
    residue: Cell<u64>,
    base: Cell<i64>,
    /// The rate of a line that is nowhere before the reference, in the form of `rate` and `base`.
    latest_rate: Cell<u64>,
    latest_base: Cell<i64>,
    /// The rate of a line that is nowhere after the reference, in the form of `rate` and `base`.
    earliest_rate: Cell<u64>,
    earliest_base: Cell<i64>,
}

impl Default for Kept {
    fn default() -> Self {
        Self::new()
    }
}

impl Kept {
    /// Makes an empty copy.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            number: Cell::new(NOTHING),
            start: Cell::new(0),
            span: Cell::new(0),
            rate: Cell::new(0),
            residue: Cell::new(0),
            base: Cell::new(0),
            latest_rate: Cell::new(0),
            latest_base: Cell::new(0),
            earliest_rate: Cell::new(0),
            earliest_base: Cell::new(0),
        }
    }

    /// Drops the copy: no counter value is covered until the next [`keep`](Follower::keep).
    pub fn forget(&self) {
        self.number.set(NOTHING);
    }

    /// Returns the product of the cycles since the line began and `rate`: nanoseconds since the line began.
    #[inline(always)]
    const fn product(gone: u64, rate: u64) -> u64 {
        // A line is so short that the product is far below 2^63.
        gone.wrapping_mul(rate)
    }
}

impl Follower {
    /// Returns the cycles from the start of the line to `cycles`; [`None`] if the line ends before, or if a line other
    /// than the `kept` one is followed.
    #[inline(always)]
    fn gone(&self, kept: &Kept, cycles: u64) -> Option<u64> {
        // Relaxed: nothing is read of what the number names. A thread that is behind a reading of another one sees the
        // number of its line or of a later one.
        if self.current.load(Ordering::Relaxed) != kept.number.get() {
            return None;
        }
        let gone = cycles.wrapping_sub(kept.start.get());
        (gone < kept.span.get()).then_some(gone)
    }

    /// Returns the time of counter value `cycles` by the copied line, or [`None`] if the copy does not cover it.
    #[inline(always)]
    pub fn kept_now(&self, kept: &Kept, cycles: u64) -> Option<Instant> {
        let gone = self.gone(kept, cycles)?;
        let nanos = Kept::product(gone, kept.rate.get()).wrapping_add(kept.residue.get()) >> 32;
        let base = kept.base.get();
        Some(Instant::from_nanos(base.wrapping_add(nanos.cast_signed())))
    }

    /// Returns an upper bound of the time of counter value `cycles` by the copied line, some nanoseconds later at most
    /// than that of [`bounds`](Self::bounds); [`None`] if the copy does not cover it.
    #[inline(always)]
    pub fn kept_latest(&self, kept: &Kept, cycles: u64) -> Option<Instant> {
        let gone = self.gone(kept, cycles)?;
        let nanos = Kept::product(gone, kept.latest_rate.get()) >> 32;
        let base = kept.latest_base.get();
        Some(Instant::from_nanos(base.wrapping_add(nanos.cast_signed())))
    }

    /// Returns a lower bound of the time of counter value `cycles` by the copied line, some nanoseconds earlier at most
    /// than that of [`bounds`](Self::bounds); [`None`] if the copy does not cover it.
    #[inline(always)]
    pub fn kept_earliest(&self, kept: &Kept, cycles: u64) -> Option<Instant> {
        let gone = self.gone(kept, cycles)?;
        let nanos = Kept::product(gone, kept.earliest_rate.get()) >> 32;
        let base = kept.earliest_base.get();
        Some(Instant::from_nanos(base.wrapping_add(nanos.cast_signed())))
    }

    /// Returns the time at which the copied line began, if it is still followed. Every reading so far is at most a
    /// [window](super::WINDOW) later.
    #[inline(always)]
    pub fn kept_since(&self, kept: &Kept) -> Option<Instant> {
        // Relaxed: as in `gone`.
        let is_followed = self.current.load(Ordering::Relaxed) == kept.number.get();
        is_followed.then_some(Instant::from_nanos(kept.base.get()))
    }

    /// Copies the line that is followed; [`kept_latest`](Self::kept_latest) adds `later` nanoseconds to its times.
    pub fn keep(&self, kept: &Kept, later: i64) {
        let (number, fast) = self.read::<{ Line::FAST }>();
        let [start, span, rate, residue, base, _] = fast;
        let (latest_rate, latest_base) = Line::latest(fast);
        let (earliest_rate, earliest_base) = Line::earliest(fast);
        // While the reference is asked there is nothing to be kept.
        kept.number.set(if span == 0 { NOTHING } else { number });
        kept.start.set(start);
        kept.span.set(span);
        kept.rate.set(rate);
        kept.residue.set(residue);
        kept.base.set(base.cast_signed());
        kept.latest_rate.set(latest_rate);
        kept.latest_base.set(latest_base.saturating_add(later));
        kept.earliest_rate.set(earliest_rate);
        kept.earliest_base.set(earliest_base);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::super::line::WINDOW;
    use super::*;

    #[test]
    fn what_is_kept_of_another_line_says_nothing() {
        let follower = Follower::new();
        let kept = Kept::new();
        assert_eq!(follower.kept_now(&kept, 0), None);
        follower.keep(&kept, 0);
        assert_eq!(follower.kept_now(&kept, 0), None, "the reference is asked");
        assert_eq!(follower.kept_latest(&kept, 0), None);
        assert_eq!(follower.kept_earliest(&kept, 0), None);
        assert_eq!(follower.kept_since(&kept), None, "nothing is followed");

        let line = |nanos| Line::from_words([0, 1_000, 1 << 32, 0, nanos, 0, 1 << 32, 0, 0]);
        let (seen, _) = follower.line();
        assert!(follower.lay(seen, &line(5)).is_ok());
        assert_eq!(follower.kept_now(&kept, 0), None, "not copied yet");
        follower.keep(&kept, 7);
        assert_eq!(
            follower.kept_now(&kept, 999),
            Some(Instant::from_nanos(1_004))
        );
        assert_eq!(follower.kept_now(&kept, 1_000), None, "the line is over");
        assert_eq!(follower.kept_latest(&kept, 1_000), None);
        assert_eq!(follower.kept_earliest(&kept, 1_000), None);
        assert_eq!(follower.kept_since(&kept), Some(Instant::from_nanos(5)));

        let (seen, _) = follower.line();
        assert!(follower.lay(seen, &line(5)).is_ok());
        assert_eq!(follower.kept_now(&kept, 999), None, "another number");
        assert_eq!(follower.kept_latest(&kept, 999), None);
        assert_eq!(follower.kept_earliest(&kept, 999), None);
        assert_eq!(follower.kept_since(&kept), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A kept line shows the same time as the line itself. Its bounds are not within the bounds of the line, and at
        /// most a few nanoseconds away from them.
        #[test]
        fn what_is_kept_says_what_the_line_says(
            rate in (1_u64 << 28)..(1 << 34), residue in 0_u64..(1 << 32), base in 0_i64..(1 << 60),
            error in 0_u64..300, start: u64, share in 0.0..1.0_f64,
        ) {
            let span = (WINDOW << 32) / rate;
            let words = [start, span, rate, residue, base.cast_unsigned(), error, rate, 0, 0];
            let follower = Follower::new();
            let (seen, _) = follower.line();
            prop_assert!(follower.lay(seen, &Line::from_words(words)).is_ok());
            let kept = Kept::new();
            follower.keep(&kept, 0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the span")]
            #[expect(clippy::cast_precision_loss, reason = "it is any place of the line")]
            let cycles = start.wrapping_add(((span - 1) as f64 * share) as u64);
            let unasked = || unreachable!("it is on the line");
            let now = follower.now(|| cycles, unasked);
            prop_assert_eq!(follower.kept_now(&kept, cycles), Some(now));
            let (earliest, latest) = follower.bounds(|| cycles, unasked);
            let later = follower.kept_latest(&kept, cycles).expect("it is on the line");
            prop_assert!(later >= latest, "{:?} before {:?}", later, latest);
            let off = later.as_nanos() - latest.as_nanos();
            prop_assert!(off <= 5, "{:?} behind {:?}", later, latest);
            let earlier = follower.kept_earliest(&kept, cycles).expect("it is on the line");
            prop_assert!(earlier <= earliest, "{:?} behind {:?}", earlier, earliest);
            let off = earliest.as_nanos() - earlier.as_nanos();
            prop_assert!(off <= 5, "{:?} before {:?}", earlier, earliest);
        }
    }
}
