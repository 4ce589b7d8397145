//! Tests of `Instant`, compared with tokio's.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use crate::support::ms;

same_as_tokio! {
    async fn it_converts_from_and_to_the_standard_library() {
        let std = StdInstant::now();
        let instant = time::Instant::from_std(std);
        assert_eq!(instant.into_std(), std);
        assert_eq!(time::Instant::from(std), instant);
        assert_eq!(StdInstant::from(instant), std);
        assert_eq!(format!("{instant:?}"), format!("{std:?}"));
        assert_eq!(format!("{instant:#?}"), format!("{std:#?}"));
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

    async fn what_does_not_fit_is_none() {
        let now = time::Instant::now();
        assert_eq!(now.checked_add(Duration::MAX), None);
        assert_eq!(now.checked_sub(Duration::MAX), None);
    }
}

#[test]
fn now_is_as_close_to_the_standard_library_as_is_said() {
    let most = Duration::from_nanos(tickless::clock::ERROR);
    for _ in 0..100_000 {
        let before = StdInstant::now();
        let now = tickless::time::Instant::now();
        let after = StdInstant::now();
        assert!(before <= now.into_std() + most);
        assert!(now.into_std() <= after + most);
    }
}

/// A deadline that is out of range never comes; tokio panics for such a deadline.
#[test]
fn what_does_not_fit_is_the_end_of_time() {
    let now = tickless::time::Instant::now();
    let millennium = Duration::from_secs(1_000 * 365 * 86_400);
    assert_eq!(now + Duration::MAX, now + millennium);
    assert!(now + millennium > now + millennium / 4);
    assert!(now - Duration::MAX < now);
    assert_eq!((now - Duration::MAX) - Duration::MAX, now - Duration::MAX);
    assert!((now + Duration::MAX).into_std() > StdInstant::now() + ms(1_000));
}

/// The conversions work in both directions, between each two of the three types.
#[cfg(feature = "tokio")]
#[test]
fn instants_convert_by_from_and_into() {
    let ours = tickless::time::Instant::now() + ms(7);
    let std: StdInstant = ours.into();
    let theirs: tokio::time::Instant = ours.into();
    assert_eq!(theirs.into_std(), std);
    assert_eq!(tickless::time::Instant::from(std), ours);
    assert_eq!(tickless::time::Instant::from(theirs), ours);
    // To the nanosecond, in both directions.
    for nanos in [1, 999, 1_000_001] {
        let step = Duration::from_nanos(nanos);
        assert_eq!(tokio::time::Instant::from(ours + step), theirs + step);
        assert_eq!(tickless::time::Instant::from(theirs - step), ours - step);
    }
}
