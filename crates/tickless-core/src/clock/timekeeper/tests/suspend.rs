//! Tests of the timekeeper on machines that sleep.

use super::*;

/// TIM-37: no reader of either publication sees time pass, whatever the counter shows, and no device is coupled.
#[test]
fn a_suspended_clock_stands_still() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    keeper.suspend(&timekeeper, Cycles(3_000));
    for cycles in [0, 2_999, 3_000, 1 << 40, 1 << 63, u64::MAX] {
        assert_eq!(timekeeper.now(|| Cycles(cycles)).as_nanos(), 1_500);
        assert_eq!(
            timekeeper
                .now_on_top_of_writer(|_| Cycles(cycles))
                .as_nanos(),
            1_500
        );
    }
    assert_eq!(timekeeper.cycles_at(TSC.id, Instant::ZERO), None);
    assert_eq!(timekeeper.counter(), None);
    // What is asked of it meanwhile counts from the resume on.
    keeper.advance(&timekeeper, Cycles(9_000));
    keeper.steer(&timekeeper, Cycles(9_000), 500_000);
    assert_eq!(timekeeper.now(|| Cycles(9_000)).as_nanos(), 1_500);
    keeper.resume(&timekeeper, Cycles(100), Slept::Unknown);
    assert_eq!(timekeeper.now(|| Cycles(100)).as_nanos(), 1_500);
    let second = timekeeper.now(|| Cycles(2_000_000_100)).as_nanos() - 1_500;
    assert!((second - 1_000_500_000).abs() <= 200, "{second}");
}

/// TIM-38: the monotonic clock continues where it stopped, and the other clocks include the sleep.
#[test]
fn a_sleep_moves_the_other_clocks_and_not_the_monotonic_one() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    let offsets = Offsets {
        realtime: Offset::from_nanos(1_000),
        boottime: Offset::from_nanos(7),
        tai: Offset::from_nanos(2_000),
    };
    keeper.set_offsets(&timekeeper, offsets);
    keeper.suspend(&timekeeper, Cycles(2_000));
    let hour = Span::from_secs(3600);
    // The counter was set back to nothing while the machine slept.
    assert_eq!(
        keeper.resume(&timekeeper, Cycles(10), Slept::Lasted(hour)),
        hour
    );
    let seen = SetSequence::START.next();
    let (now, news) = timekeeper.now_and_offsets(seen, |_| Cycles(10));
    assert_eq!(now.as_nanos(), 1_000);
    let read = news.expect("the clocks were set").1;
    let slept = 3600 * NANOS_PER_SEC;
    assert_eq!(read.realtime.as_nanos(), 1_000 + slept);
    assert_eq!(read.boottime.as_nanos(), 7 + slept);
    assert_eq!(read.tai.as_nanos(), 2_000 + slept);
    // It is not suspended any more: nothing happens.
    assert_eq!(
        keeper.resume(&timekeeper, Cycles(4_000), Slept::Lasted(hour)),
        Span::ZERO
    );
    assert_eq!(keeper.offsets(), read);
    assert_eq!(timekeeper.now(|| Cycles(2_010)).as_nanos(), 2_000);
}

/// TIM-38: the error from before the sleep is set to zero.
#[test]
fn a_sleep_clears_the_error() {
    let (timekeeper, mut keeper) = Timekeeper::new(ODD, Cycles(0));
    keeper.advance(&timekeeper, Cycles(90_000_000_000));
    assert_ne!(keeper.error(), 0);
    keeper.suspend(&timekeeper, Cycles(90_000_000_000));
    keeper.resume(&timekeeper, Cycles(0), Slept::Unknown);
    assert_eq!(keeper.error(), 0);
}

/// TIM-39: a sleep of a month by the counter, which is far more than the fast path can multiply. If the counter went
/// back, or a persistent clock was set back, the length is zero.
#[test]
fn the_length_of_a_sleep_neither_overflows_nor_is_negative() {
    let month = 30 * 24 * 3600;
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    keeper.suspend(&timekeeper, Cycles(500));
    let cycles = month * 2_000_000_000 + 500;
    let slept = keeper.resume(&timekeeper, Cycles(cycles), Slept::ByCounter);
    assert_eq!(slept, Span::from_secs(month));
    assert_eq!(timekeeper.now(|| Cycles(cycles)).as_nanos(), 250);
    keeper.suspend(&timekeeper, Cycles(cycles));
    let slept = keeper.resume(&timekeeper, Cycles(cycles - 1), Slept::ByCounter);
    assert_eq!(slept, Span::ZERO);
    let [early, late] = [5, 9].map(|secs| Instant::<Realtime>::from_nanos(secs * NANOS_PER_SEC));
    assert_eq!(
        Slept::by_persistent_clock(early, late),
        Slept::Lasted(Span::from_secs(4))
    );
    assert_eq!(
        Slept::by_persistent_clock(late, early),
        Slept::Lasted(Span::ZERO)
    );
}

/// TIM-38: the driver of a clock chip starts late, and reports the length of the sleep then.
#[test]
fn a_sleep_that_is_known_late_is_injected() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    keeper.suspend(&timekeeper, Cycles(0));
    keeper.resume(&timekeeper, Cycles(0), Slept::Unknown);
    let seen = timekeeper
        .now_and_offsets(SetSequence::UNSEEN, |_| Cycles(0))
        .1
        .expect("unseen")
        .0;
    keeper.inject_sleep(&timekeeper, Span::from_secs(3));
    let (now, news) = timekeeper.now_and_offsets(seen, |_| Cycles(2_000));
    assert_eq!(now.as_nanos(), 1_000);
    assert_eq!(
        news.expect("the clocks were set").1.boottime.as_nanos(),
        3 * NANOS_PER_SEC
    );
}

/// TIM-43: the counter that drives the time is replaced while the machine sleeps.
#[test]
fn a_counter_that_is_replaced_in_sleep_goes_on_where_the_other_stood() {
    let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
    keeper.suspend(&timekeeper, Cycles(3_000));
    keeper
        .switch_counter(&timekeeper, Cycles(8_000), NARROW, Cycles(100))
        .expect("it counts");
    assert_eq!(timekeeper.counter(), None);
    assert_eq!(timekeeper.now(|| Cycles(77)).as_nanos(), 1_500);
    keeper.resume(&timekeeper, Cycles(24_100), Slept::ByCounter);
    assert_eq!(timekeeper.counter(), Some(NARROW.id));
    assert_eq!(timekeeper.now(|| Cycles(24_100 + 24)).as_nanos(), 2_500);
    assert!((keeper.offsets().boottime.as_nanos() - 1_000_000).abs() <= 1);
}
