//! The choice of round points in time, at which timers with slack fire together (spec OBJ-22).
//!
//! The roundest point of a window is the point that is a multiple of the longest *unit*. The units are 1/64 ms and its
//! doublings, which include 1 ms, 2 ms, 4 ms and so on. Each unit is a multiple of the unit before, so each window has
//! exactly one roundest point. Timers with different slack choose the same point whenever their windows allow it,
//! without any shared state.
//!
//! A window as long as a unit, both ends included, holds a multiple of that unit. So timers with a slack of 1 ms fire
//! at whole milliseconds, and at most at 1,001 points in a second, for any number of timers.

use crate::time::{Instant, Span};

/// The shortest unit in nanoseconds: 1/64 ms.
const GRAIN: i64 = 15_625;

/// Returns the roundest point between `first` and `last`, both included; `last` if the window holds no multiple of a
/// unit.
#[inline]
const fn roundest(first: i64, last: i64) -> i64 {
    // Both round down: the last multiple in the window, and the last one before it.
    let (in_window, before) = if first > 0 {
        // A third of the instructions, and what times are.
        (last / GRAIN, (first - 1) / GRAIN)
    } else {
        (
            last.div_euclid(GRAIN),
            first.saturating_sub(1).div_euclid(GRAIN),
        )
    };
    if in_window <= before {
        return last;
    }
    // Of the numbers behind `before` up to `in_window` the one with the most zeros at its end has all bits of the
    // latter down to the first in which they differ.
    let first_difference = i64::BITS - 1 - (in_window ^ before).leading_zeros();
    ((in_window >> first_difference) << first_difference) * GRAIN
}

impl<C> Instant<C> {
    /// Returns the roundest point between this point and `slack` later. Timers with slack fire at this point, because
    /// other timers with slack are likely to choose the same point.
    ///
    /// The point is a multiple of the longest unit that has a multiple in that time; units are 1/64 ms (15,625 ns),
    /// 1/32 ms and so on, 1 ms, 2 ms and so on. With a slack of 1 ms the result is a whole millisecond, or rounder. If
    /// that time holds no multiple of a unit, which requires a slack below 1/64 ms, the result is the last point of
    /// that time. The result is never later than [`LATEST`](Self::LATEST), or than this point if this point is later.
    ///
    /// # Cost
    ///
    /// A dozen instructions.
    ///
    /// ```
    /// use tickless_core::time::{Instant, Monotonic, Span};
    ///
    /// let deadline = Instant::<Monotonic>::from_nanos(7_300_000);
    /// let after = |slack| deadline.roundest_within(slack).as_nanos();
    /// assert_eq!(after(Span::from_millis(1)), 8_000_000);
    /// assert_eq!(after(Span::from_millis(5)), 8_000_000);
    /// assert_eq!(after(Span::from_micros(50)), 7_312_500);
    /// assert_eq!(after(Span::from_nanos(100)), 7_300_100);
    /// ```
    #[inline]
    #[must_use]
    pub fn roundest_within(self, slack: Span) -> Self {
        let last = self.saturating_add(slack).max(self);
        Self::from_nanos(roundest(self.as_nanos(), last.as_nanos()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::time::Monotonic;

    /// Returns the roundness of a point: the largest power of two that divides its number of grains, as an exponent.
    fn roundness(point: i64) -> Option<u32> {
        (point % GRAIN == 0).then(|| (point / GRAIN).trailing_zeros())
    }

    fn at(nanos: i64) -> Instant<Monotonic> {
        Instant::from_nanos(nanos)
    }

    /// Returns the roundest point by a search through each multiple in the window, as an oracle for OBJ-22.
    fn searched(first: i64, last: i64) -> i64 {
        let multiples = (first.div_euclid(GRAIN)..=last.div_euclid(GRAIN)).map(|n| n * GRAIN);
        let inside = multiples.filter(|point| (first..=last).contains(point));
        inside.max_by_key(|point| roundness(*point)).unwrap_or(last)
    }

    proptest! {
        #[test]
        fn it_is_the_multiple_of_the_longest_unit(
            first in -4_000_000_000..4_000_000_000_i64,
            slack in 0..20_000_000_i64,
        ) {
            prop_assert_eq!(roundest(first, first + slack), searched(first, first + slack));
        }

        #[test]
        fn it_is_never_early_nor_later_than_allowed(first in any::<i64>(), slack in any::<u64>()) {
            let slack = Span::from_nanos(slack);
            let chosen = at(first).roundest_within(slack);
            prop_assert!(chosen >= at(first));
            prop_assert!(chosen <= at(first).saturating_add(slack).max(at(first)));
        }

        #[test]
        fn what_may_be_later_chooses_no_earlier(
            first in 0..4_000_000_000_i64,
            later in 0..20_000_000_i64,
            slack in 0..20_000_000_i64,
        ) {
            let chosen = roundest(first, first + slack);
            prop_assert!(chosen <= roundest(first + later, first + later + slack));
        }

        #[test]
        fn a_slack_of_a_unit_leads_to_a_multiple_of_it(
            first in 0..i64::MAX / 2,
            doublings in 0..18_u32,
        ) {
            let unit = GRAIN << doublings;
            prop_assert_eq!(roundest(first, first + unit) % unit, 0);
        }
    }

    #[test]
    fn windows_of_a_millisecond_meet_a_thousand_times_a_second() {
        let chosen: BTreeSet<_> = (0..1_000_000_000)
            .step_by(997)
            .map(|first| roundest(first, first + 1_000_000))
            .collect();
        assert_eq!(chosen.len(), 1_001);
    }

    #[test]
    fn at_the_ends_of_time_it_stays_in_its_window() {
        let all = Span::MAX;
        assert_eq!(at(i64::MAX).roundest_within(all), Instant::FOREVER);
        assert_eq!(at(i64::MIN).roundest_within(Span::ZERO), at(i64::MIN));
        assert_eq!(at(-5).roundest_within(Span::from_nanos(9)), Instant::ZERO);
        assert_eq!(
            at(i64::MIN).roundest_within(Span::MAX).as_nanos() % GRAIN,
            0
        );
    }
}
