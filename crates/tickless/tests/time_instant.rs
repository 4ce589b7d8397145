//! `Instant`, against tokio's.

mod support;

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use support::{ms, panic_of};

same_as_tokio! {
    async fn it_is_the_instant_of_the_standard_library() {
        let std = StdInstant::now();
        let instant = time::Instant::from_std(std);
        assert_eq!(instant.into_std(), std);
        assert_eq!(time::Instant::from(std), instant);
        assert_eq!(StdInstant::from(instant), std);
        assert_eq!(format!("{instant:?}"), format!("{std:?}"));
        assert_eq!(format!("{instant:#?}"), format!("{std:#?}"));
    }

    async fn now_lies_between_two_readings_of_the_standard_library() {
        let before = StdInstant::now();
        let now = time::Instant::now();
        let after = StdInstant::now();
        assert!(before <= now.into_std());
        assert!(now.into_std() <= after);
    }

    async fn arithmetic_is_exact_to_the_nanosecond() {
        let step = Duration::new(3, 141_592_653);
        let start = time::Instant::now();
        let mut end = start + step;
        assert_eq!(end - start, step);
        assert_eq!(end.duration_since(start), step);
        assert_eq!(end - step, start);
        end += step;
        assert_eq!(end - start, step * 2);
        end -= step;
        assert_eq!(end, start + step);
        assert_eq!(end.checked_add(step), Some(start + step * 2));
        assert_eq!(end.checked_sub(step), Some(start));
    }

    async fn differences_never_go_below_zero() {
        let early = time::Instant::now();
        let late = early + ms(5);
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(early.duration_since(late), Duration::ZERO);
        assert_eq!(early.saturating_duration_since(late), Duration::ZERO);
        assert_eq!(late.saturating_duration_since(early), ms(5));
        assert_eq!(early.checked_duration_since(late), None);
        assert_eq!(late.checked_duration_since(early), Some(ms(5)));
        assert_eq!(late.elapsed(), Duration::ZERO);
    }

    async fn elapsed_counts_from_the_instant() {
        let start = time::Instant::now();
        thread::sleep(ms(2));
        assert!(start.elapsed() >= ms(2));
    }

    async fn instants_are_ordered_and_hashed() {
        let early = time::Instant::now();
        let late = early + Duration::from_nanos(1);
        assert!(early < late);
        assert_eq!(early.max(late), late);
        let all: HashSet<_> = [early, late, early].into();
        assert_eq!(all.len(), 2);
    }

    async fn what_does_not_fit_is_none_or_a_panic() {
        let now = time::Instant::now();
        assert_eq!(now.checked_add(Duration::MAX), None);
        assert_eq!(now.checked_sub(Duration::MAX), None);
        let panicked = panic_of(|| {
            let _never = now + Duration::MAX;
        });
        assert_eq!(panicked.message, "overflow when adding duration to instant");
        let panicked = panic_of(|| {
            let _never = now - Duration::MAX;
        });
        assert_eq!(panicked.message, "overflow when subtracting duration from instant");
    }
}

#[test]
fn the_two_kinds_of_instants_convert_into_each_other() {
    let ours = tickless::time::Instant::now();
    let theirs = tokio::time::Instant::from_std(ours.into_std());
    assert_eq!(tickless::time::Instant::from_std(theirs.into_std()), ours);
}

#[test]
fn instants_can_be_made_in_constants_and_shared() {
    fn is_plain<T: Copy + Send + Sync + Unpin + 'static>() {}
    const fn keep(instant: StdInstant) -> tickless::time::Instant {
        tickless::time::Instant::from_std(instant)
    }
    is_plain::<tickless::time::Instant>();
    let now = StdInstant::now();
    assert_eq!(keep(now).into_std(), now);
}
