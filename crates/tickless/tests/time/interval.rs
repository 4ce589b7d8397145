//! Tests of `interval` and `interval_at`, compared with tokio's.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{self, Wakes, ms, panic_of, poll_idly};

const HOUR: Duration = Duration::from_secs(3600);

same_as_tokio! {
    async fn an_interval_does_not_drift() {
        let start = time::Instant::now();
        let mut interval = time::interval_at(start, ms(1));
        for tick in 0..150 {
            let due = start + ms(1) * tick;
            assert_eq!(interval.tick().await, due);
            assert!(time::Instant::now() >= due);
            // Work between the ticks, which a drifting interval would add up.
            thread::sleep(Duration::from_micros(200));
        }
    }

    async fn polling_and_awaiting_share_the_ticks() {
        let mut interval = time::interval_at(time::Instant::now() + HOUR, HOUR);
        let (wakes, waker) = Wakes::new();
        let mut context = Context::from_waker(&waker);
        assert!(interval.poll_tick(&mut context).is_pending());
        assert!(interval.poll_tick(&mut context).is_pending());
        let first = time::Instant::now() + ms(5);
        interval.reset_at(first);
        assert_eq!(interval.tick().await, first);
        assert!(interval.poll_tick(&mut context).is_pending());
        let before = wakes.count();
        let second = time::Instant::now() + ms(5);
        interval.reset_at(second);
        while wakes.count() == before {
            time::sleep(ms(1)).await;
        }
        assert_eq!(interval.poll_tick(&mut context), Poll::Ready(second));
        assert!(poll_idly(pin!(interval.tick())).is_pending());
        let third = time::Instant::now() + ms(5);
        interval.reset_at(third);
        assert_eq!(interval.tick().await, third);
    }

    async fn a_polled_interval_wakes_its_task_for_each_tick() {
        let start = time::Instant::now() + ms(2);
        let mut interval = time::interval_at(start, ms(2));
        for tick in 0..5 {
            let (wakes, waker) = Wakes::new();
            loop {
                let before = wakes.count();
                if let Poll::Ready(due) = interval.poll_tick(&mut Context::from_waker(&waker)) {
                    assert_eq!(due, start + ms(2) * tick);
                    break;
                }
                while wakes.count() == before {
                    time::sleep(Duration::from_micros(300)).await;
                }
            }
        }
    }

    async fn a_tick_that_was_taken_wakes_no_task_again() {
        let (wakes, waker) = Wakes::new();
        let mut interval = time::interval_at(time::Instant::now() - ms(1000), ms(1));
        interval.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let mut context = Context::from_waker(&waker);
        assert!(interval.poll_tick(&mut context).is_ready());
        time::sleep(ms(6)).await;
        assert_eq!(wakes.count(), 0, "no task asked for the second tick");
    }

    async fn a_reset_moves_the_tick_that_a_task_waits_for() {
        let (wakes, waker) = Wakes::new();
        let mut interval = time::interval_at(time::Instant::now() + HOUR, HOUR);
        let mut context = Context::from_waker(&waker);
        assert!(interval.poll_tick(&mut context).is_pending());
        let at = time::Instant::now() + ms(3);
        interval.reset_at(at);
        while wakes.count() == 0 {
            time::sleep(ms(1)).await;
        }
        assert!(time::Instant::now() >= at);
        assert_eq!(interval.poll_tick(&mut context), Poll::Ready(at));

        assert!(interval.poll_tick(&mut context).is_pending());
        interval.reset_immediately();
        while wakes.count() == 1 {
            time::sleep(ms(1)).await;
        }
        assert!(interval.poll_tick(&mut context).is_ready());

        assert!(interval.poll_tick(&mut context).is_pending());
        interval.reset_after(ms(2));
        while wakes.count() == 2 {
            time::sleep(ms(1)).await;
        }
        assert!(interval.poll_tick(&mut context).is_ready());
    }

    async fn the_longest_period_does_no_harm() {
        let mut interval = time::interval(Duration::MAX);
        interval.tick().await;
        assert!(poll_idly(pin!(interval.tick())).is_pending());
        let mut context = Context::from_waker(Waker::noop());
        assert!(interval.poll_tick(&mut context).is_pending());
        interval.reset();
        assert!(interval.poll_tick(&mut context).is_pending());
        interval.reset_after(Duration::MAX);
        assert!(interval.poll_tick(&mut context).is_pending());
        interval.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
        interval.reset_at(time::Instant::now() - ms(100));
        assert!(interval.poll_tick(&mut context).is_ready());
        assert!(interval.poll_tick(&mut context).is_pending());
    }

    async fn a_period_of_zero_panics_where_it_was_written() {
        let panicked = panic_of(|| drop(time::interval(Duration::ZERO)));
        assert_eq!(panicked.message, "`period` must be non-zero.");
        assert_eq!(panicked.file, file!());
        let start = time::Instant::now();
        let line = line!() + 1;
        let panicked = panic_of(|| drop(time::interval_at(start, Duration::ZERO)));
        assert_eq!(panicked.message, "`period` must be non-zero.");
        assert_eq!((panicked.file.as_str(), panicked.line), (file!(), line));
    }

    async fn behaviours_are_plain_values() {
        let all = [
            time::MissedTickBehavior::Burst,
            time::MissedTickBehavior::Delay,
            time::MissedTickBehavior::Skip,
        ];
        assert_eq!(format!("{all:?}"), "[Burst, Delay, Skip]");
        assert_eq!(time::MissedTickBehavior::default(), all[0]);
        let copied = all[2];
        assert_eq!(copied, all[2]);
        let mut interval = time::interval(HOUR);
        for behavior in all {
            interval.set_missed_tick_behavior(behavior);
            assert_eq!(interval.missed_tick_behavior(), behavior);
        }
        let text = format!("{interval:?}");
        assert!(text.starts_with("Interval {"), "{text}");
        assert!(text.contains("period: 3600s, missed_tick_behavior: Skip"), "{text}");
    }
}

#[test]
fn a_polled_interval_can_be_moved() {
    fn is_movable<T: Unpin + Send + Sync>(value: T) -> T {
        value
    }
    let _patience = support::begin();
    let now = tickless::time::Instant::now;
    let mut interval = is_movable(tickless::time::interval_at(now() + HOUR, ms(2)));
    let (wakes, waker) = Wakes::new();
    let mut context = Context::from_waker(&waker);
    assert!(interval.poll_tick(&mut context).is_pending());
    let start = now() + ms(2);
    interval.reset_at(start);
    let mut moved = support::on_thread(move || Box::new(interval));
    wakes.wait();
    assert_eq!(moved.poll_tick(&mut context), Poll::Ready(start));
}

/// A tick is taken two and a half hours late, when two more ticks are due.
#[test]
fn ticks_that_are_never_taken_are_missed() {
    use tickless::time::{Instant, MissedTickBehavior, interval_at};

    let context = &mut Context::from_waker(Waker::noop());
    for (behavior, at_once, missed) in [
        (MissedTickBehavior::Burst, 3, 0),
        (MissedTickBehavior::Delay, 1, 2),
        (MissedTickBehavior::Skip, 1, 2),
    ] {
        let mut interval = interval_at(Instant::now() - HOUR * 5 / 2, HOUR);
        interval.set_missed_tick_behavior(behavior);
        assert_eq!(interval.missed_ticks(), 0);
        let mut taken = 0;
        while interval.poll_tick(context).is_ready() {
            taken += 1;
            assert_eq!(interval.missed_ticks(), missed, "{behavior:?}");
        }
        assert_eq!(taken, at_once, "{behavior:?}");
        // A reset keeps the count, and drops ticks without counting them.
        interval.reset_at(Instant::now() - HOUR / 2);
        assert!(interval.poll_tick(context).is_ready());
        assert!(interval.missed_ticks() - missed <= 1, "{behavior:?}");
    }
}
