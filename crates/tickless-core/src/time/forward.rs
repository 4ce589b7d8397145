//! The move of a deadline ahead by whole intervals (spec ).

use crate::time::{Deadline, Span};

/// Moves both expiries ahead by whole intervals until the deadline is after `now`. Returns the number of intervals.
///
/// A timer that fired within its slack, before its deadline, moves by one interval. Its soft expiry has passed, so
/// without the move the timer would be due again at once. (Spec FWD-1 considers only the deadline.) The result is 0 if
/// the soft expiry has not passed.
///
/// The function takes constant time (B41), saturates (spec FWD-4), and keeps the phase.
pub(crate) fn forward(
    deadline: &mut Deadline,
    earliest: &mut Deadline,
    now: Deadline,
    interval: Span,
) -> u64 {
    if now < *earliest {
        return 0;
    }
    let late = now.saturating_sub(*deadline).max(0);
    let interval = interval.as_nanos().max(1);
    // Rounds down: whole intervals that are over. One more leads behind `now`.
    let over = late.unsigned_abs() / interval;
    let intervals = over.saturating_add(1);
    let distance = Span::from_nanos(intervals.saturating_mul(interval));
    *deadline = deadline.saturating_add(distance);
    *earliest = earliest.saturating_add(distance);
    intervals
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::{Instant, Monotonic};

    fn at(nanos: i64) -> Deadline {
        Deadline::new(Instant::<Monotonic>::from_nanos(nanos))
    }

    fn run(deadline: i64, now: i64, interval: u64) -> (i64, u64) {
        run_with_slack(deadline, 0, now, interval)
    }

    fn run_with_slack(deadline: i64, slack: i64, now: i64, interval: u64) -> (i64, u64) {
        let mut hard = at(deadline);
        let mut soft = at(deadline - slack);
        let intervals = forward(&mut hard, &mut soft, at(now), Span::from_nanos(interval));
        assert_eq!(
            hard.as_nanos() - soft.as_nanos(),
            slack,
            "both expiries move alike"
        );
        (hard.as_nanos(), intervals)
    }

    #[test]
    fn overruns_are_those_of_the_specification() {
        // Spec.
        assert_eq!(run(100, 99, 10), (100, 0));
        assert_eq!(run(100, 100, 10), (110, 1));
        assert_eq!(run(100, 109, 10), (110, 1));
        assert_eq!(run(100, 110, 10), (120, 2));
        assert_eq!(run(100, 120, 10), (130, 3));
        let far = 1_000_000_000_000_000_000;
        assert_eq!(run(100, far + 5, 1), (far + 6, far.unsigned_abs() - 94));
    }

    #[test]
    fn a_timer_that_fired_within_its_slack_goes_on_by_one_interval() {
        assert_eq!(run_with_slack(100, 30, 69, 50), (100, 0), "not yet");
        assert_eq!(run_with_slack(100, 30, 70, 50), (150, 1));
        assert_eq!(run_with_slack(100, 30, 99, 50), (150, 1));
        assert_eq!(run_with_slack(100, 30, 100, 50), (150, 1));
        // The next one may fire at once, but is not late and not lost.
        assert_eq!(run_with_slack(100, 30, 149, 50), (150, 1));
        assert_eq!(run_with_slack(100, 30, 150, 50), (200, 2));
    }

    #[test]
    fn an_interval_of_zero_counts_as_one_nanosecond() {
        assert_eq!(run(100, 105, 0), (106, 6));
    }

    #[test]
    fn a_forward_to_the_end_of_time_saturates() {
        let mut hard = at(100);
        let mut soft = at(100);
        let end = Deadline::new(Instant::<Monotonic>::LATEST);
        assert!(forward(&mut hard, &mut soft, end, Span::MAX) >= 1);
        assert_eq!(hard, end);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The result is after `now` by at most one interval, and in phase, for any slack.
        #[test]
        fn the_result_is_the_next_multiple(
            deadline in 0_i64..1_000_000_000_000,
            slack in 0_i64..1_000_000,
            late in 0_i64..1_000_000_000_000,
            interval in 1_u64..10_000_000_000,
        ) {
            let now = deadline + late;
            let (result, intervals) = run_with_slack(deadline, slack, now, interval);
            let interval = i64::try_from(interval).expect("small");
            prop_assert!(result > now && result <= now + interval);
            prop_assert_eq!(result - deadline, i64::try_from(intervals).expect("small") * interval);
        }
    }
}
