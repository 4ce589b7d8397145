//! Tests of one thread and its virtual clock.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tickless::realtime::{self, Ended, OnSet};
use tickless::time::{
    self, DelayQueue, Duration, Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout,
};
use tickless::wheel::{self, WheelTimer};
use tickless::{Worker, boottime, coarse, tai};

use crate::support::{Wakes, message_of, poll_idly, poll_with};

const DAY: Duration = Duration::from_secs(86_400);

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn run<F: Future>(future: F) -> F::Output {
    Worker::new().expect("none so far").block_on(future)
}

fn paused<F: Future>(future: F) -> F::Output {
    run(async {
        time::pause();
        future.await
    })
}

#[test]
fn timers_fire_by_deadline_and_then_in_the_order_in_which_they_were_armed() {
    let order = Mutex::new(Vec::new());
    paused(async {
        let start = Instant::now();
        let wait = |name: &'static str, after: u64| {
            let order = &order;
            async move {
                sleep_until(start + nanos(after)).await;
                assert_eq!(start.elapsed(), nanos(after), "{name}");
                order.lock().expect("no panic").push(name);
            }
        };
        futures::join!(
            wait("late", 3),
            wait("first", 1),
            wait("second", 1),
            wait("between", 2),
            time::advance(nanos(3)),
        );
    });
    assert_eq!(
        *order.lock().expect("no panic"),
        ["first", "second", "between", "late"]
    );
}

#[test]
fn a_dropped_sleep_leaves_the_clock_alone() {
    paused(async {
        let start = Instant::now();
        let (count, waker) = Wakes::new();
        {
            let mut sleep = pin!(sleep(nanos(5)));
            assert!(poll_with(sleep.as_mut(), &waker).is_pending());
            drop(waker);
            assert_eq!(Arc::strong_count(&count), 2);
        }
        assert_eq!(Arc::strong_count(&count), 1, "nothing is kept of it");
        sleep(nanos(10)).await;
        assert_eq!(count.count(), 0);
        assert_eq!(start.elapsed(), nanos(10));
    });
}

#[test]
fn all_timers_of_the_family_follow() {
    paused(async {
        let start = Instant::now();
        let mut interval = interval(nanos(7));
        for round in 0..4_u32 {
            assert_eq!(interval.tick().await, start + round * nanos(7));
            assert_eq!(start.elapsed(), round * nanos(7));
        }
        coarse::sleep(DAY).await;
        assert_eq!(
            start.elapsed(),
            nanos(21) + DAY,
            "no coarser than the clock"
        );

        let start = Instant::now();
        sleep(DAY).slack(Duration::from_secs(1)).await;
        assert_eq!(start.elapsed(), DAY);

        let mut queue = DelayQueue::new();
        queue.insert("b", nanos(2));
        queue.insert("a", nanos(1));
        queue.insert("c", nanos(2));
        let start = Instant::now();
        let mut seen = Vec::new();
        while let Some(expired) = poll_fn(|context| queue.poll_expired(context)).await {
            seen.push((expired.into_inner(), start.elapsed()));
        }
        assert_eq!(seen, [("a", nanos(1)), ("b", nanos(2)), ("c", nanos(2))]);
    });
}

#[test]
fn each_runtime_has_a_clock_of_its_own_which_ends_with_it() {
    let far = paused(async {
        sleep(100 * DAY).await;
        Instant::now()
    });
    assert!(Instant::now() + DAY < far, "the process's clock again");
    let other = std::thread::spawn(|| paused(async { Instant::now() }));
    paused(async {
        sleep(10 * DAY).await;
        let other = other.join().expect("it does not panic");
        assert!(other + DAY < Instant::now());
    });
}

#[test]
fn a_sleep_that_outlives_its_runtime_waits_for_the_next_clock() {
    let mut left = Box::pin(sleep(nanos(1)));
    let (count, waker) = Wakes::new();
    let deadline = paused(async {
        left.set(sleep(nanos(1_000)));
        let is_ready = poll_with(left.as_mut(), &waker);
        assert!(is_ready.is_pending());
        left.deadline()
    });
    assert_eq!(count.count(), 1, "its task looks again");
    run(left);
    assert!(Instant::now() >= deadline);
}

#[test]
fn a_clock_that_goes_on_fires_its_timers_in_time() {
    paused(async {
        let start = Instant::now();
        let real = std::time::Instant::now();
        sleep(DAY).await;
        let armed = pin!(sleep(Duration::from_millis(2)));
        time::resume();
        armed.await;
        sleep(Duration::from_millis(2)).await;
        assert!(start.elapsed() >= DAY + Duration::from_millis(4));
        assert!(real.elapsed() >= Duration::from_millis(4));
        time::pause();
        let now = Instant::now();
        sleep(DAY).await;
        assert_eq!(now.elapsed(), DAY);
    });
}

#[test]
fn a_manual_clock_passes_by_advance_alone() {
    run(async {
        time::pause_manually();
        let start = Instant::now();
        let woken = std::thread::spawn(|| std::thread::sleep(Duration::from_millis(20)));
        let mut hour = pin!(sleep(Duration::from_secs(3_600)));
        poll_fn(|context| {
            assert!(hour.as_mut().poll(context).is_pending());
            if woken.is_finished() {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(1));
                waker.wake();
            });
            Poll::Pending
        })
        .await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        time::advance(Duration::from_secs(3_600)).await;
        assert!(poll_idly(hour.as_mut()).is_ready());
    });
}

/// Waits for `future`, which takes `length` on the clock.
async fn takes<F: Future>(length: Duration, future: F) -> F::Output {
    let start = Instant::now();
    let output = future.await;
    assert_eq!(start.elapsed(), length);
    output
}

#[test]
fn the_other_clocks_pass_with_the_one_that_is_stopped() {
    paused(async {
        let (since, at) = (boottime::Instant::now(), tai::Instant::now());
        takes(nanos(1), boottime::sleep(nanos(1))).await;
        takes(DAY, boottime::sleep(DAY)).await;
        takes(DAY, boottime::sleep_until(boottime::Instant::now() + DAY)).await;
        takes(DAY, tai::sleep(DAY)).await;
        assert_eq!(since.elapsed(), 3 * DAY + nanos(1));
        assert_eq!(at.elapsed(), 3 * DAY + nanos(1));
        let late = takes(DAY, boottime::timeout(DAY, std::future::pending::<()>())).await;
        assert!(late.is_err());
        let in_time = boottime::timeout(2 * DAY, boottime::sleep(DAY));
        assert_eq!(takes(DAY, in_time).await, Ok(()));
        let mut ticks = boottime::interval(DAY);
        takes(Duration::ZERO, ticks.tick()).await;
        takes(DAY, ticks.tick()).await;
        takes(DAY, ticks.tick()).await;
    });
}

#[test]
fn alarms_come_by_the_clock_that_is_stopped() {
    paused(async {
        for on_set in [OnSet::Follow, OnSet::FireNow, OnSet::Keep] {
            let alarm = realtime::sleep_until(realtime::now() + DAY, on_set);
            assert_eq!(takes(DAY, alarm).await, Ended::Due, "{on_set:?}");
        }
        let start = realtime::now();
        let noons = realtime::sleep_until_next(|now| now + DAY);
        assert_eq!(takes(DAY, noons).await, start + DAY);
        let late = realtime::timeout(DAY, OnSet::Follow, std::future::pending::<()>());
        assert_eq!(
            takes(DAY, late).await.expect_err("it is late").ended(),
            Ended::Due
        );
        let mut ticks = realtime::interval_at(realtime::now() + DAY, DAY);
        takes(DAY, ticks.tick()).await;
        takes(DAY, ticks.tick()).await;
        let kept = realtime::kept(realtime::now() + DAY);
        takes(DAY, sleep_until(kept)).await;

        // By an advance, in the order of all timers.
        let mut alarm = pin!(realtime::sleep_until(
            realtime::now() + nanos(7),
            OnSet::Follow
        ));
        assert!(poll_idly(alarm.as_mut()).is_pending());
        time::advance(nanos(6)).await;
        assert!(poll_idly(alarm.as_mut()).is_pending());
        alarm.as_mut().reset(realtime::now() + nanos(2));
        assert!(poll_idly(alarm.as_mut()).is_pending());
        time::advance(nanos(2)).await;
        assert!(poll_idly(alarm.as_mut()).is_ready());
    });
}

#[test]
fn an_alarm_wakes_its_task_wherever_the_clock_is_and_ends_with_it() {
    let (count, waker) = Wakes::new();
    let mut left = Box::pin(boottime::sleep(DAY));
    paused(async {
        let mut alarm = Box::pin(boottime::sleep(nanos(10)));
        let is_ready = poll_with(alarm.as_mut(), &waker);
        assert!(is_ready.is_pending());
        {
            let mut dropped = pin!(boottime::sleep(nanos(5)));
            let is_ready = poll_with(dropped.as_mut(), &waker);
            assert!(is_ready.is_pending());
        }
        time::advance(nanos(9)).await;
        assert_eq!(count.count(), 0);
        time::advance(nanos(1)).await;
        assert_eq!(count.count(), 1);
        left.set(boottime::sleep(Duration::from_millis(1)));
    });
    // Polled under no virtual clock: by the process's.
    assert_eq!(run(left.as_mut()), ());
    assert!(boottime::Instant::now() >= left.deadline());
}

#[test]
fn a_callback_that_stays_on_its_thread_says_that_it_does_not_follow() {
    let told = "this timer with a callback goes by the process's clock";
    paused(async {
        let coarse = pin!(WheelTimer::with_kind(wheel::WheelKind::Local, |_| {
            wheel::Restart::No
        }));
        let coarse = coarse.as_ref();
        let starts: [&dyn Fn(); 3] = [
            &|| {
                let _ = coarse.start(DAY);
            },
            &|| {
                let _ = coarse.start_if_earlier(DAY);
            },
            &|| {
                let _ = coarse.start_if_idle(DAY);
            },
        ];
        for start in starts {
            assert!(message_of(start).starts_with(told));
        }
        assert!(!coarse.is_queued());
        // Nor once the clock runs on: it is ahead of the process's.
        time::advance(DAY).await;
        time::resume();
        assert!(message_of(starts[0]).starts_with(told));
    });
    // After the runtime it works.
    let coarse = pin!(WheelTimer::with_kind(wheel::WheelKind::Local, |_| {
        wheel::Restart::No
    }));
    let coarse = coarse.as_ref();
    assert_eq!(coarse.start(DAY), wheel::StartOutcome::Started);
    assert!(coarse.cancel());
}

#[test]
fn a_reset_to_the_past_wakes_before_it_returns() {
    paused(async {
        let (wakes, waker) = Wakes::new();
        let mut context = Context::from_waker(&waker);
        let start = Instant::now();
        let mut waits = Box::pin(sleep(DAY));
        assert!(poll_with(waits.as_mut(), &waker).is_pending());
        waits.as_mut().reset(start);
        assert_eq!(wakes.count(), 1);
        assert!(poll_with(waits.as_mut(), &waker).is_ready());

        let mut queue = DelayQueue::new();
        let key = queue.insert("value", DAY);
        assert!(queue.poll_expired(&mut context).is_pending());
        queue.reset_at(&key, start);
        assert_eq!(wakes.count(), 2);
        assert!(queue.poll_expired(&mut context).is_ready());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// Sleeps that waited on the clock take nothing from the budget of their task, and sleeps that need not wait take it
/// from one poll alone.
#[test]
fn each_expiry_is_told_at_once() {
    paused(async {
        for _ in 0..1_290 {
            let ten = Duration::from_millis(10);
            assert_eq!(timeout(ten, sleep(ten)).await, Ok(()));
            let mut waits = pin!(sleep(ten));
            assert!(poll_once(waits.as_mut()).await.is_pending());
            time::advance(ten).await;
            assert!(poll_once(waits.as_mut()).await.is_ready());
            let mut alarm = pin!(boottime::sleep(ten));
            assert!(poll_once(alarm.as_mut()).await.is_pending());
            time::advance(ten).await;
            assert!(poll_once(alarm.as_mut()).await.is_ready());
        }
        for _ in 0..1_000 {
            assert!(poll_once(pin!(sleep(Duration::ZERO))).await.is_ready());
            tickless::coop::yield_now().await;
        }
    });
}

/// Polls with the waker of the task.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[test]
fn a_waker_that_panics_is_contained() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("in a waker");
        }
    }
    let before = tickless::stats().panics;
    paused(async {
        let waker = Waker::from(Arc::new(Panics));
        let start = Instant::now();
        let mut first = Box::pin(sleep(DAY));
        assert!(poll_with(first.as_mut(), &waker).is_pending());
        let mut moved = Box::pin(sleep(2 * DAY));
        assert!(poll_with(moved.as_mut(), &waker).is_pending());
        moved.as_mut().reset(start);
        sleep(3 * DAY).await;
        assert_eq!(start.elapsed(), 3 * DAY);
        // While the clock runs, and at the end of the runtime.
        let mut running = Box::pin(sleep(nanos(1)));
        assert!(poll_with(running.as_mut(), &waker).is_pending());
        time::resume();
        sleep(Duration::from_millis(2)).await;
        let mut left = Box::pin(sleep(DAY));
        assert!(poll_with(left.as_mut(), &waker).is_pending());
        std::mem::forget(left);
    });
    assert!(tickless::stats().panics >= before + 4);
}

#[test]
fn a_queue_of_delays_follows_the_clock_back() {
    let mut queue = DelayQueue::new();
    let first = |queue: &mut DelayQueue<u32>| {
        let expired = queue.poll_expired(&mut Context::from_waker(Waker::noop()));
        expired.map(|expired| expired.map(time::Expired::into_inner))
    };
    // The clock that was paused is ahead.
    paused(async {
        queue.insert(1, DAY);
        assert_eq!(first(&mut queue), Poll::Pending);
        time::advance(DAY).await;
        assert_eq!(first(&mut queue), Poll::Ready(Some(1)));
    });
    queue.insert(2, DAY / 2);
    assert_eq!(first(&mut queue), Poll::Pending, "by the process's clock");
    // It is behind.
    paused(async {
        let far = Instant::now() + DAY;
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| {
                paused(async {
                    time::advance(DAY).await;
                    assert_eq!(first(&mut queue), Poll::Ready(Some(2)));
                    assert_eq!(first(&mut queue), Poll::Ready(None));
                });
            });
            ahead.join().expect("it does not panic");
        });
        queue.insert_at(3, far);
        queue.insert(4, DAY / 2);
        assert_eq!(first(&mut queue), Poll::Pending);
        time::advance(DAY / 2).await;
        assert_eq!(first(&mut queue), Poll::Ready(Some(4)));
        assert_eq!(first(&mut queue), Poll::Pending);
    });
}

/// A sleep that is too far to tell takes thirty years, until the clock is near the end of its range.
#[test]
fn never_does_not_come_at_the_end_of_time() {
    run(async {
        let (sender, done) = futures::channel::oneshot::channel();
        time::pause();
        let rounds = [Cell::new(0), Cell::new(0)];
        let never = async {
            loop {
                sleep(Duration::MAX).await;
                rounds[0].set(rounds[0].get() + 1);
            }
        };
        let alarms = async {
            loop {
                let end = std::time::UNIX_EPOCH + Duration::from_secs(1 << 40);
                realtime::sleep_until(end, OnSet::Follow).await;
                rounds[1].set(rounds[1].get() + 1);
            }
        };
        let waits = async {
            let _ended = std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                sender.send(())
            });
            done.await.expect("it is sent");
        };
        let never = pin!(async { futures::join!(never, alarms) });
        futures::future::select(never, pin!(waits)).await;
        assert!(rounds.iter().all(|rounds| rounds.get() <= 10), "{rounds:?}");
        // What is in range goes on.
        let start = Instant::now();
        sleep(DAY).await;
        assert_eq!(start.elapsed(), DAY);
    });
}

/// The reactions to a set of the wall clock, each with the time at which the sleep ended.
#[test]
fn a_set_of_the_wall_clock_ends_sleeps_as_their_policies_say() {
    let ended = |step: i32| {
        paused(async {
            let start = Instant::now();
            let alarm = realtime::now() + 4 * DAY;
            let ends = |on_set| async move {
                let ended = realtime::sleep_until(alarm, on_set).await;
                (start.elapsed(), ended)
            };
            let sets = async {
                sleep(DAY).await;
                let now = realtime::now();
                let to = match step {
                    0.. => now + DAY * step.unsigned_abs(),
                    _ => now - DAY * step.unsigned_abs(),
                };
                realtime::set(to);
                assert_eq!(realtime::now(), to);
            };
            let [follow, now, keep] = [OnSet::Follow, OnSet::FireNow, OnSet::Keep].map(ends);
            let (follow, now, keep, ()) = futures::join!(follow, now, keep, sets);
            [follow, now, keep]
        })
    };
    let (late, set) = (Ended::DueAfterSet, Ended::ClockSet);
    assert_eq!(ended(1), [(3 * DAY, late), (DAY, set), (4 * DAY, late)]);
    assert_eq!(ended(5), [(DAY, late), (DAY, late), (4 * DAY, late)]);
    assert_eq!(ended(-1), [(5 * DAY, late), (DAY, set), (4 * DAY, late)]);
}

#[test]
fn a_set_of_the_wall_clock_moves_what_follows_it_alone() {
    paused(async {
        let (up, atomic) = (boottime::Instant::now(), tai::Instant::now());
        let start = realtime::now();
        // By the turn of each day that this clock shows.
        let calls = Mutex::new(Vec::new());
        let next = |now: std::time::SystemTime| {
            calls.lock().expect("no panic").push(now);
            now + DAY
        };
        let mut next = pin!(realtime::sleep_until_next(next));
        let mut ticks = realtime::interval_at(start + DAY, DAY);
        assert!(poll_once(next.as_mut()).await.is_pending());
        assert!(poll_once(pin!(ticks.tick())).await.is_pending());
        // Parts that are polled only if they are woken.
        let parts = [2, 3].map(|days| realtime::sleep_until(start + days * DAY, OnSet::Follow));
        let mut parts = futures::stream::FuturesUnordered::from_iter(parts);
        let mut parts = futures::StreamExt::next(&mut parts);
        assert!(poll_once(Pin::new(&mut parts)).await.is_pending());
        let instant = Instant::now();
        realtime::set(start + 2 * DAY);
        assert_eq!(Instant::now(), instant);
        assert_eq!(up.elapsed(), Duration::ZERO);
        assert_eq!(atomic.elapsed(), 2 * DAY);
        assert_eq!(ticks.tick().await, start + DAY);
        assert_eq!(ticks.tick().await, start + 2 * DAY);
        assert_eq!(parts.await, Some(Ended::DueAfterSet));
        assert_eq!(instant.elapsed(), Duration::ZERO);
        assert_eq!(next.await, start + 3 * DAY);
        assert_eq!(instant.elapsed(), DAY);
        assert_eq!(*calls.lock().expect("no panic"), [start, start + 2 * DAY]);
        let limit = realtime::timeout(DAY, OnSet::FireNow, std::future::pending::<()>());
        let mut limit = pin!(limit);
        assert!(poll_once(limit.as_mut()).await.is_pending());
        realtime::set(start);
        let elapsed = limit.await.expect_err("it is over");
        assert_eq!(elapsed.ended(), Ended::ClockSet);
        // Sets before a sleep do not count, and other runtimes have their own clocks.
        let alarm = realtime::sleep_until(realtime::now() + DAY, OnSet::FireNow);
        let other = std::thread::spawn(|| {
            paused(async {
                realtime::set(realtime::now() + 9 * DAY);
            });
        });
        other.join().expect("it does not panic");
        assert_eq!(alarm.await, Ended::Due);
    });
    let behind = std::time::SystemTime::now();
    assert!(realtime::now().duration_since(behind).expect("not before") < DAY);
}

#[test]
fn a_clock_that_runs_is_not_set() {
    let outside = "time cannot be frozen from outside the Tokio runtime";
    let set = || realtime::set(std::time::UNIX_EPOCH);
    assert!(message_of(set).starts_with(outside));
    run(async {
        assert_eq!(message_of(set), "time is not frozen");
        time::pause();
        time::resume();
        assert_eq!(message_of(set), "time is not frozen");
    });
}

/// The task of an interval of 50 us stalls for less than tokio's 5 ms, and for more: no stall makes `Skip` or `Delay`
/// catch up, and the taken ticks and the missed ticks together are the ticks for which there was time.
#[test]
fn taken_and_missed_ticks_are_the_wanted_ticks() {
    const PERIOD: Duration = Duration::from_micros(50);

    macro_rules! ticks_of {
        ($clock:ident, $behavior:expr) => {
            paused(async {
                let start = Instant::now();
                let mut ticks = $clock::interval(PERIOD);
                ticks.set_missed_tick_behavior($behavior);
                ticks.tick().await;
                let mut taken = 1;
                for stall in [3, 80, 99, 120] {
                    let missed = ticks.missed_ticks();
                    time::advance(PERIOD * stall).await;
                    let from = Instant::now();
                    while from.elapsed() < PERIOD * 4 {
                        ticks.tick().await;
                        taken += 1;
                    }
                    let missed = ticks.missed_ticks() - missed;
                    let expected = match $behavior {
                        MissedTickBehavior::Burst => 0,
                        _ => u64::from(stall) - 1,
                    };
                    assert_eq!(missed, expected, "{:?} {stall}", $behavior);
                }
                let wanted = start.elapsed().as_nanos() / PERIOD.as_nanos() + 1;
                let sum = taken + ticks.missed_ticks();
                assert_eq!(u128::from(sum), wanted, "{:?}", $behavior);
            });
        };
    }

    for behavior in [
        MissedTickBehavior::Burst,
        MissedTickBehavior::Delay,
        MissedTickBehavior::Skip,
    ] {
        ticks_of!(time, behavior);
        ticks_of!(boottime, behavior);
    }
}
