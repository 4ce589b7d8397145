//! The cases of the suite that check one detail of the documentation each.

/// Makes the cases for the time module `$time`; `$run` runs a future under a paused clock, `$running` under a running
/// clock.
macro_rules! details {
    ($name:ident, $time:path, $run:path, $running:path, $slop:expr) => {
        mod $name {
            use std::future::{pending, ready};
            use std::pin::pin;
            use std::sync::Mutex;
            use std::time::{Duration, Instant as StdInstant};

            use super::support::{Wakes, message_of, ms, poll_idly, poll_with};
            use time::{
                Instant, Interval, MissedTickBehavior, advance, interval, interval_at, sleep,
                timeout, timeout_at,
            };
            use $run as run;
            use $running as running;
            use $time as time;

            const SLOP: Duration = Duration::from_millis($slop);
            const HOUR: Duration = Duration::from_secs(3_600);
            const ALL: [MissedTickBehavior; 3] = [
                MissedTickBehavior::Burst,
                MissedTickBehavior::Delay,
                MissedTickBehavior::Skip,
            ];

            fn took(start: Instant, length: Duration) {
                let elapsed = start.elapsed();
                assert!(
                    length <= elapsed && elapsed <= length + SLOP,
                    "{elapsed:?} for {length:?}"
                );
            }

            /// Takes each tick at once, and returns the times at which the ticks were due, in milliseconds from
            /// `start`.
            async fn ticks<const COUNT: usize>(
                interval: &mut Interval,
                start: Instant,
            ) -> [u128; COUNT] {
                let mut due = [0; COUNT];
                for due in &mut due {
                    *due = interval.tick().await.duration_since(start).as_millis();
                }
                due
            }

            // Instants.

            #[test]
            fn the_clock_of_std_goes_on() {
                run(async {
                    let (now, std) = (Instant::now(), StdInstant::now());
                    std::thread::sleep(ms(2));
                    assert!(std.elapsed() >= ms(2));
                    assert_eq!(now.elapsed(), Duration::ZERO);
                    advance(HOUR).await;
                    assert!(std.elapsed() < HOUR);
                    assert_eq!(now.elapsed(), HOUR);
                });
            }

            #[test]
            fn instants_are_told_to_the_nanosecond() {
                run(async {
                    let start = Instant::now();
                    for nanos in [1, 999, 1_000, 999_999, 1_000_001] {
                        let before = Instant::now();
                        advance(Duration::from_nanos(nanos)).await;
                        assert_eq!(before.elapsed(), Duration::from_nanos(nanos));
                    }
                    assert_eq!(start.elapsed(), Duration::from_nanos(2_002_000));
                    assert!(start.checked_sub(Duration::MAX).is_none());
                });
            }

            // The clock.

            #[test]
            fn outside_of_a_runtime_there_is_no_clock_to_stop() {
                let expected = "time cannot be frozen from outside the Tokio runtime";
                assert!(message_of(time::pause).starts_with(expected));
                assert!(message_of(time::resume).starts_with(expected));
                let mut moves = Box::pin(advance(ms(1)));
                let told = message_of(|| {
                    let _ready = poll_idly(moves.as_mut());
                });
                assert!(told.starts_with(expected), "{told}");
            }

            #[test]
            fn a_clock_goes_on_from_where_it_was_moved_to() {
                run(async {
                    let start = Instant::now();
                    advance(HOUR).await;
                    time::resume();
                    assert!(start.elapsed() >= HOUR);
                    assert!(start.elapsed() < 2 * HOUR);
                    time::pause();
                    let again = Instant::now();
                    advance(HOUR).await;
                    assert_eq!(again.elapsed(), HOUR);
                    assert!(start.elapsed() >= 2 * HOUR);
                });
            }

            #[test]
            fn advances_add_up() {
                run(async {
                    let start = Instant::now();
                    advance(Duration::ZERO).await;
                    assert_eq!(start.elapsed(), Duration::ZERO);
                    futures::join!(advance(ms(1)), advance(ms(2)), advance(ms(3)));
                    assert_eq!(start.elapsed(), ms(6));
                });
            }

            #[test]
            fn an_advance_has_an_end() {
                run(async {
                    let start = Instant::now();
                    let mut moves = Box::pin(advance(Duration::MAX));
                    let told = message_of(|| {
                        let _ready = poll_idly(moves.as_mut());
                    });
                    assert_eq!(told, "overflow when adding duration to instant");
                    assert_eq!(start.elapsed(), Duration::ZERO);
                });
            }

            #[test]
            fn time_passes_when_all_wait_and_in_the_order_of_deadlines() {
                run(async {
                    let order = Mutex::new(Vec::new());
                    let start = Instant::now();
                    let wait = |millis: u64| {
                        let order = &order;
                        async move {
                            sleep(ms(millis)).await;
                            took(start, ms(millis));
                            order.lock().expect("no panic").push(millis);
                        }
                    };
                    futures::join!(wait(3_000), wait(1), wait(70), wait(2), wait(600));
                    assert_eq!(*order.lock().expect("no panic"), [1, 2, 70, 600, 3_000]);
                    took(start, ms(3_000));
                });
            }

            #[test]
            fn what_was_armed_before_the_first_pause_follows() {
                running(async {
                    let mut waits = pin!(sleep(HOUR));
                    let mut limit = pin!(timeout(2 * HOUR, pending::<()>()));
                    let mut ticks = interval_at(Instant::now() + 3 * HOUR, HOUR);
                    assert!(poll_idly(waits.as_mut()).is_pending());
                    assert!(poll_idly(limit.as_mut()).is_pending());
                    assert!(poll_idly(pin!(ticks.tick())).is_pending());
                    time::pause();
                    let start = Instant::now();
                    assert!(poll_idly(waits.as_mut()).is_pending());
                    waits.as_mut().await;
                    assert!(waits.deadline() <= Instant::now());
                    assert!(limit.await.is_err());
                    ticks.tick().await;
                    assert!(start.elapsed() <= 3 * HOUR + SLOP);
                    assert!(start.elapsed() + Duration::from_secs(60) > 3 * HOUR);
                });
            }

            #[test]
            fn a_part_of_a_future_that_was_armed_before_the_first_pause_follows() {
                running(async {
                    let start = Instant::now();
                    let waits = async {
                        sleep(HOUR).await;
                        start.elapsed()
                    };
                    let pauses = async {
                        futures::pending!();
                        time::pause();
                    };
                    let mut both = pin!(futures::future::join(waits, pauses));
                    assert!(poll_idly(both.as_mut()).is_pending());
                    let (elapsed, ()) = both.await;
                    assert!(elapsed >= HOUR);
                });
            }

            // Sleeps.

            #[test]
            fn a_sleep_wakes_the_task_that_polled_it_last() {
                run(async {
                    let (first, first_waker) = Wakes::new();
                    let (last, last_waker) = Wakes::new();
                    let mut waits = pin!(sleep(ms(10)));
                    for waker in [&first_waker, &last_waker] {
                        let polled = poll_with(waits.as_mut(), waker);
                        assert!(polled.is_pending());
                    }
                    sleep(ms(20)).await;
                    assert_eq!((first.count(), last.count()), (0, 1));
                    assert!(poll_idly(waits.as_mut()).is_ready());
                });
            }

            #[test]
            fn a_sleep_that_was_reset_wakes_its_task_at_the_new_time() {
                run(async {
                    let start = Instant::now();
                    let (count, waker) = Wakes::new();
                    let mut waits = pin!(sleep(ms(100)));
                    let polled = poll_with(waits.as_mut(), &waker);
                    assert!(polled.is_pending());
                    waits.as_mut().reset(start + ms(200));
                    sleep(ms(150)).await;
                    assert_eq!(count.count(), 0);
                    sleep(ms(51)).await;
                    assert_eq!(count.count(), 1);
                    assert!(waits.is_elapsed());
                    // It wakes the task that polled it last again.
                    let polled = poll_with(waits.as_mut(), &waker);
                    assert!(polled.is_ready());
                    waits.as_mut().reset(start + ms(300));
                    assert!(!waits.is_elapsed());
                    sleep(ms(100)).await;
                    assert_eq!(count.count(), 2);
                    // Reset again, to a time that is over: the next poll finds it.
                    waits.as_mut().reset(start);
                    assert_eq!(waits.deadline(), start);
                    waits.as_mut().await;
                    took(start, ms(301));
                });
            }

            #[test]
            fn a_sleep_that_is_not_polled_counts_from_its_call() {
                run(async {
                    let start = Instant::now();
                    let waits = sleep(ms(100));
                    advance(ms(60)).await;
                    waits.await;
                    took(start, ms(100));
                    let late = sleep(ms(10));
                    advance(ms(60)).await;
                    late.await;
                    took(start, ms(160));
                });
            }

            // Timeouts.

            #[test]
            fn limits_that_are_over_elapse_at_once() {
                run(async {
                    let start = Instant::now();
                    assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
                    assert!(timeout_at(start, pending::<()>()).await.is_err());
                    let over = start - ms(7);
                    assert!(timeout_at(over, pending::<()>()).await.is_err());
                    took(start, Duration::ZERO);
                });
            }

            #[test]
            fn the_inner_limit_elapses_first() {
                run(async {
                    let start = Instant::now();
                    let inner = timeout(ms(10), pending::<()>());
                    assert!(timeout(ms(20), inner).await.expect("in time").is_err());
                    took(start, ms(10));
                    let inner = timeout(ms(20), pending::<()>());
                    assert!(timeout(ms(10), inner).await.is_err());
                    took(start, ms(20));
                });
            }

            #[test]
            fn a_limit_leaves_the_future_to_who_asks_for_it() {
                run(async {
                    let start = Instant::now();
                    let mut limit = Box::pin(timeout(ms(10), Box::pin(sleep(ms(30)))));
                    assert!(limit.as_mut().await.is_err());
                    took(start, ms(10));
                    assert!(!limit.get_ref().is_elapsed());
                    // Movable, as what it holds is.
                    let mut limit = timeout(HOUR, ready(7));
                    assert_eq!(limit.get_mut().clone().into_inner(), 7);
                    assert_eq!(limit.into_inner().await, 7);
                });
            }

            // Intervals.

            #[test]
            fn ticks_that_were_missed_come_as_the_documentation_shows() {
                run(async {
                    // 200 ms late, 50 ms apart.
                    let start = Instant::now();
                    let mut burst = interval(ms(50));
                    burst.tick().await;
                    advance(ms(200)).await;
                    assert_eq!(ticks(&mut burst, start).await, [50, 100, 150, 200]);
                    took(start, ms(200));
                    assert_eq!(ticks(&mut burst, start).await, [250]);
                    took(start, ms(250));

                    let start = Instant::now();
                    let mut delay = interval(ms(50));
                    delay.set_missed_tick_behavior(MissedTickBehavior::Delay);
                    advance(ms(70)).await;
                    assert_eq!(ticks(&mut delay, start).await, [0, 120, 170]);
                    took(start, ms(170));

                    let start = Instant::now();
                    let mut skip = interval(ms(50));
                    skip.set_missed_tick_behavior(MissedTickBehavior::Skip);
                    advance(ms(75)).await;
                    assert_eq!(ticks(&mut skip, start).await, [0, 100, 150]);
                    took(start, ms(150));
                });
            }

            #[test]
            fn a_tick_is_missed_from_five_milliseconds_on() {
                run(async {
                    for (late, next) in [
                        (ms(5), ms(100)),
                        (
                            ms(5) + Duration::from_nanos(1),
                            ms(105) + Duration::from_nanos(1),
                        ),
                        (ms(6), ms(106)),
                    ] {
                        let mut delay = interval(ms(100));
                        delay.set_missed_tick_behavior(MissedTickBehavior::Delay);
                        let start = Instant::now();
                        advance(late).await;
                        assert_eq!(delay.tick().await, start);
                        assert_eq!(delay.tick().await, start + next, "{late:?}");
                    }
                });
            }

            #[test]
            fn the_behaviour_may_change_between_ticks() {
                run(async {
                    let start = Instant::now();
                    let mut changes = interval(ms(10));
                    changes.tick().await;
                    advance(ms(45)).await;
                    assert_eq!(ticks(&mut changes, start).await, [10]);
                    changes.set_missed_tick_behavior(MissedTickBehavior::Skip);
                    assert_eq!(changes.missed_tick_behavior(), MissedTickBehavior::Skip);
                    assert_eq!(ticks(&mut changes, start).await, [20, 50, 60]);
                });
            }

            #[test]
            fn an_interval_begins_in_the_past_too() {
                run(async {
                    advance(HOUR).await;
                    for (behavior, expected) in ALL.into_iter().zip([
                        [0, 100, 200, 300, 400],
                        [0, 350, 450, 550, 650],
                        [0, 300, 400, 500, 600],
                    ]) {
                        let now = Instant::now();
                        let start = now - ms(250);
                        let mut late = interval_at(start, ms(100));
                        late.set_missed_tick_behavior(behavior);
                        assert_eq!(ticks(&mut late, start).await, expected, "{behavior:?}");
                    }
                });
            }

            #[test]
            fn a_reset_asks_for_no_behaviour_and_drops_missed_ticks() {
                run(async {
                    for behavior in ALL {
                        let mut interval = interval(ms(100));
                        interval.set_missed_tick_behavior(behavior);
                        interval.tick().await;
                        advance(ms(350)).await;
                        let start = Instant::now();
                        interval.reset();
                        assert_eq!(
                            ticks(&mut interval, start).await,
                            [100, 200],
                            "{behavior:?}"
                        );
                        advance(ms(350)).await;
                        let start = Instant::now();
                        interval.reset_immediately();
                        assert_eq!(ticks(&mut interval, start).await, [0, 100]);
                        advance(ms(350)).await;
                        let start = Instant::now();
                        interval.reset_after(ms(20));
                        assert_eq!(ticks(&mut interval, start).await, [20, 120]);
                        advance(ms(350)).await;
                        let start = Instant::now();
                        // Longer than a period.
                        interval.reset_at(start + ms(730));
                        assert_eq!(ticks(&mut interval, start).await, [730, 830]);
                        assert_eq!(interval.missed_tick_behavior(), behavior);
                        assert_eq!(interval.period(), ms(100));
                    }
                });
            }

            #[test]
            fn a_reset_into_the_past_catches_up_by_the_behaviour() {
                run(async {
                    advance(HOUR).await;
                    for (behavior, expected) in ALL.into_iter().zip([
                        [0, 100, 200, 300, 400],
                        [0, 350, 450, 550, 650],
                        [0, 300, 400, 500, 600],
                    ]) {
                        let mut interval = interval(ms(100));
                        interval.set_missed_tick_behavior(behavior);
                        interval.tick().await;
                        let start = Instant::now() - ms(250);
                        interval.reset_at(start);
                        assert_eq!(ticks(&mut interval, start).await, expected, "{behavior:?}");
                    }
                });
            }

            #[test]
            fn a_reset_before_the_first_tick_moves_it() {
                run(async {
                    let start = Instant::now();
                    let mut interval = interval(ms(100));
                    interval.reset();
                    assert_eq!(ticks(&mut interval, start).await, [100, 200]);
                });
            }

            #[test]
            fn a_tick_that_lost_a_select_is_not_lost() {
                run(async {
                    let start = Instant::now();
                    let mut interval = interval(ms(100));
                    interval.tick().await;
                    for _ in 0..3 {
                        tokio::select! {
                            _ = interval.tick() => panic!("the other one is shorter"),
                            () = sleep(ms(30)) => {}
                        }
                    }
                    assert_eq!(ticks(&mut interval, start).await, [100]);
                });
            }
        }
    };
}
