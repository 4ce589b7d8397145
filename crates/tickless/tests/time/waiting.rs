//! Tests of wake-ups without another poll, and of yielding: the same code runs with this library and with tokio.
#![deny(
    unused_must_use,
    reason = "what tokio lets callers ignore may be ignored here"
)]

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{self, Wakes, ms, poll_with, us, waiting};

const HOUR: Duration = Duration::from_secs(3600);
/// The duration that tokio uses for "never".
const THIRTY_YEARS: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The numbers of tasks, in the order in which the tasks were woken.
type Order = Arc<Mutex<Vec<usize>>>;

/// A task that records its number when it is woken.
struct Numbered(usize, Order);

impl Wake for Numbered {
    fn wake(self: Arc<Self>) {
        self.1
            .lock()
            .expect("no thread panics with it")
            .push(self.0);
    }
}

/// Lets time pass in steps until `wakes` counts more than `before`.
macro_rules! woken {
    ($time:ident, $wakes:expr, $before:expr) => {
        while $wakes.count() <= $before {
            $time::sleep(ms(1)).await;
        }
    };
}

/// Polls until the future is ready. In tokio no future is ready at its first poll, not even with a deadline in the
/// past.
macro_rules! told {
    ($time:ident, $future:expr, $waker:expr) => {
        loop {
            match poll_with($future, $waker) {
                Poll::Ready(answer) => break answer,
                Poll::Pending => $time::sleep(ms(1)).await,
            }
        }
    };
}

/// Lets the other tasks of the thread have a turn each. (The version for tokio waits for a turn of the runtime's
/// driver.)
async fn give_way() {
    let mut gave_way = false;
    poll_fn(|context| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

same_as_tokio! {
    async fn a_tick_that_was_polled_and_dropped_wakes_its_task() {
        let start = time::Instant::now() + Duration::from_secs(1);
        let mut interval = time::interval_at(start, HOUR);
        let (wakes, waker) = Wakes::new();
        assert!(poll_with(pin!(interval.tick()), &waker).is_pending());
        woken!(time, wakes, 0);
        assert_eq!(told!(time, pin!(interval.tick()), &waker), start);
    }

    async fn a_stream_may_make_a_tick_for_each_poll() {
        let start = time::Instant::now() + ms(1);
        let mut interval = time::interval_at(start, ms(2));
        for tick in 0..5 {
            let due = poll_fn(|context| pin!(interval.tick()).poll(context)).await;
            assert_eq!(due, start + ms(2) * tick);
        }
    }

    async fn an_interval_that_is_reset_wakes_the_task_that_dropped_its_tick() {
        let mut interval = time::interval(HOUR);
        interval.tick().await;
        let (wakes, waker) = Wakes::new();
        assert!(poll_with(pin!(interval.tick()), &waker).is_pending());
        interval.reset_after(ms(2));
        woken!(time, wakes, 0);
        told!(time, pin!(interval.tick()), &waker);
    }

    async fn an_interval_that_is_reset_wakes_no_task_that_took_its_tick() {
        let mut interval = time::interval(HOUR);
        let (wakes, waker) = Wakes::new();
        told!(time, pin!(interval.tick()), &waker);
        let before = wakes.count();
        interval.reset_after(ms(2));
        time::sleep(ms(8)).await;
        assert_eq!(wakes.count(), before, "it waits for nothing");
        told!(time, pin!(interval.tick()), &waker);
    }

    async fn a_sleep_that_was_ready_wakes_its_task_when_it_is_reset() {
        let past = time::Instant::now() - ms(5);
        let sleeps = [time::sleep_until(past), time::sleep(Duration::ZERO), time::sleep(ms(2))];
        for sleep in sleeps {
            let mut sleep = pin!(sleep);
            let (wakes, waker) = Wakes::new();
            told!(time, sleep.as_mut(), &waker);
            let before = wakes.count();
            sleep.as_mut().reset(time::Instant::now() + ms(4));
            woken!(time, wakes, before);
            assert!(sleep.is_elapsed());
            assert!(poll_with(sleep.as_mut(), &waker).is_ready());
        }
    }

    async fn a_sleep_that_was_ready_wakes_the_task_that_polled_it_last() {
        let mut sleep = pin!(time::sleep(Duration::ZERO));
        let (first, first_waker) = Wakes::new();
        let (last, last_waker) = Wakes::new();
        told!(time, sleep.as_mut(), &first_waker);
        let before = first.count();
        sleep.as_mut().reset(time::Instant::now() + HOUR);
        assert!(poll_with(sleep.as_mut(), &last_waker).is_pending());
        sleep.as_mut().reset(time::Instant::now() + ms(2));
        woken!(time, last, 0);
        assert!(poll_with(sleep.as_mut(), &first_waker).is_ready());
        sleep.as_mut().reset(time::Instant::now() + ms(2));
        woken!(time, first, before);
        assert_eq!((first.count(), last.count()), (before + 1, 1));
    }

    async fn a_sleep_that_was_ready_can_be_moved_on_and_on() {
        let mut sleep = pin!(time::sleep(Duration::ZERO));
        let (wakes, waker) = Wakes::new();
        told!(time, sleep.as_mut(), &waker);
        let before = wakes.count();
        for step in before..before + 5 {
            sleep.as_mut().reset(time::Instant::now() + HOUR);
            sleep.as_mut().reset(time::Instant::now() + ms(2));
            woken!(time, wakes, step);
            assert_eq!(wakes.count(), step + 1);
            assert!(poll_with(sleep.as_mut(), &waker).is_ready());
        }
    }

    async fn a_sleep_that_was_ready_and_is_reset_to_the_past_wakes_its_task() {
        let mut sleep = pin!(time::sleep(Duration::ZERO));
        let (wakes, waker) = Wakes::new();
        told!(time, sleep.as_mut(), &waker);
        let before = wakes.count();
        sleep.as_mut().reset(time::Instant::now() - ms(5));
        woken!(time, wakes, before);
        assert!(sleep.is_elapsed());
    }

    async fn a_sleep_that_waits_and_is_reset_to_the_past_is_over() {
        let mut sleep = pin!(time::sleep(HOUR));
        let (wakes, waker) = Wakes::new();
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        sleep.as_mut().reset(time::Instant::now() - ms(5));
        woken!(time, wakes, 0);
        assert!(sleep.is_elapsed());
        assert!(poll_with(sleep.as_mut(), &waker).is_ready());
    }

    async fn a_sleep_that_fired_unseen_wakes_once() {
        let (wakes, waker) = Wakes::new();
        let mut sleep = waiting(|| time::sleep(ms(50)), &waker);
        woken!(time, wakes, 0);
        sleep.as_mut().reset(time::Instant::now() + ms(2));
        time::sleep(ms(8)).await;
        assert_eq!(wakes.count(), 1, "its waker was used up");
        assert!(poll_with(sleep.as_mut(), &waker).is_ready());
    }

    async fn what_was_ready_gives_the_waker_back_when_it_goes() {
        let _patience = support::begin();
        let (wakes, waker) = Wakes::new();
        let mut sleep = Box::pin(time::sleep(Duration::ZERO));
        told!(time, sleep.as_mut(), &waker);
        sleep.as_mut().reset(time::Instant::now() + HOUR);
        drop(sleep);
        let mut sleep = Box::pin(time::sleep(ms(2)));
        told!(time, sleep.as_mut(), &waker);
        drop((sleep, waker));
        // The thread that fired it may be about to let go of the waker that it woke. One that is kept for ever ends the
        // patience.
        while Arc::strong_count(&wakes) > 1 {
            thread::yield_now();
        }
    }

    async fn a_limit_wakes_its_task() {
        let (wakes, waker) = Wakes::new();
        let mut limited = waiting(|| time::timeout(ms(50), pending::<()>()), &waker);
        woken!(time, wakes, 0);
        assert!(poll_with(limited.as_mut(), &waker).is_ready());
    }

    async fn sleeps_of_one_deadline_wake_in_the_order_in_which_they_were_armed() {
        for distance in [ms(1), ms(20), ms(200)] {
            let order = Order::default();
            let deadline = time::Instant::now() + distance;
            let mut sleeps: Vec<_> = (0..50)
                .map(|_| Box::pin(time::sleep_until(deadline)))
                .collect();
            let mut armed = Vec::new();
            for (number, sleep) in sleeps.iter_mut().enumerate() {
                let task = Numbered(number, Arc::clone(&order));
                if poll_with(sleep.as_mut(), &Waker::from(Arc::new(task))).is_pending() {
                    armed.push(number);
                }
            }
            while order.lock().expect("no thread panics with it").len() < armed.len() {
                time::sleep(ms(1)).await;
            }
            assert_eq!(*order.lock().expect("no thread panics with it"), armed, "{distance:?}");
        }
    }

    async fn a_loop_over_sleeps_that_are_over_lets_others_end_it() {
        let done = Arc::new(AtomicBool::new(false));
        let other = tokio::spawn({
            let done = Arc::clone(&done);
            async move { done.store(true, Ordering::Relaxed) }
        });
        while !done.load(Ordering::Relaxed) {
            time::sleep(Duration::ZERO).await;
        }
        other.await.expect("it ends");
    }

    async fn a_limit_ends_a_loop_that_never_waits() {
        let past = time::Instant::now() - ms(5);
        let over = time::timeout(ms(3), async { loop { time::sleep(Duration::ZERO).await } });
        assert!(over.await.is_err());
        let over = time::timeout(ms(3), async { loop { time::sleep_until(past).await } });
        assert!(over.await.is_err());
        let over = time::timeout(ms(3), async {
            let mut interval = time::interval_at(past, Duration::from_nanos(1));
            loop {
                interval.tick().await;
            }
        });
        assert!(over.await.is_err());
        let over = time::timeout(ms(3), async {
            let mut limit = pin!(time::sleep(HOUR));
            loop {
                tokio::select! {
                    () = &mut limit => break,
                    () = time::sleep(Duration::ZERO) => {}
                }
            }
        });
        assert!(over.await.is_err());
    }

    async fn a_limit_of_a_loop_of_limits_ends_it() {
        let over = time::timeout(ms(3), async {
            loop {
                let over = time::timeout(Duration::ZERO, pending::<()>()).await;
                assert!(over.is_err());
            }
        });
        assert!(over.await.is_err());
    }

    async fn a_burst_of_missed_ticks_lets_neighbours_run() {
        let turns = Arc::new(AtomicU32::new(0));
        let neighbour = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                loop {
                    turns.fetch_add(1, Ordering::Relaxed);
                    give_way().await;
                }
            }
        });
        let burst = tokio::spawn(async {
            let start = time::Instant::now() - ms(100);
            let mut interval = time::interval_at(start, us(10));
            for tick in 0..10_000 {
                assert_eq!(interval.tick().await, start + us(10) * tick);
            }
        });
        burst.await.expect("it ends");
        let turns = turns.load(Ordering::Relaxed);
        neighbour.abort();
        assert!(turns >= 10_000 / 128, "{turns} turns");
    }

    async fn the_period_of_an_interval_is_what_it_can_wait_for() {
        assert_eq!(time::interval(HOUR).period(), HOUR);
        assert_eq!(time::interval(THIRTY_YEARS).period(), THIRTY_YEARS);
        for period in [THIRTY_YEARS + us(1), 2 * THIRTY_YEARS, Duration::MAX] {
            assert_eq!(time::interval(period).period(), THIRTY_YEARS);
        }
    }

    async fn answers_may_be_ignored() {
        let now = time::Instant::now();
        time::Instant::now();
        time::Instant::from_std(now.into_std());
        now.into_std();
        now.elapsed();
        now.duration_since(now);
        now.checked_duration_since(now);
        now.saturating_duration_since(now);
        now.checked_add(ms(1));
        now.checked_sub(ms(1));
        let sleep = time::sleep(ms(1));
        sleep.deadline();
        sleep.is_elapsed();
        let mut limited = time::timeout(ms(1), pending::<()>());
        limited.get_ref();
        limited.get_mut();
        drop(limited.into_inner());
        let interval = time::interval(HOUR);
        interval.period();
        interval.missed_tick_behavior();
        time::error::Error::shutdown();
        time::error::Error::shutdown().is_shutdown();
        time::error::Error::at_capacity();
        time::error::Error::at_capacity().is_at_capacity();
        time::error::Error::invalid();
        time::error::Error::invalid().is_invalid();
    }
}

/// The sleeps are armed one after the other, some far from and some near their deadline; tokio orders only the sleeps
/// of one slot.
#[test]
fn sleeps_of_one_deadline_keep_their_order_however_far_away_they_were() {
    let _patience = support::begin();
    let order = Order::default();
    let deadline = tickless::time::Instant::now() + ms(300);
    let mut sleeps: Vec<_> = (0..60)
        .map(|_| Box::pin(tickless::time::sleep_until(deadline)))
        .collect();
    let mut armed = Vec::new();
    for (number, sleep) in sleeps.iter_mut().enumerate() {
        let task = Numbered(number, Arc::clone(&order));
        if poll_with(sleep.as_mut(), &Waker::from(Arc::new(task))).is_pending() {
            armed.push(number);
        }
        thread::sleep(ms(5));
    }
    support::until(|| order.lock().expect("no thread panics with it").len() == armed.len());
    assert_eq!(*order.lock().expect("no thread panics with it"), armed);
}
