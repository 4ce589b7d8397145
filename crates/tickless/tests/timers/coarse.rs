//! Tests of `tickless::coarse`: the behaviour that it shares with `tickless::time`, on all kinds of threads.

use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    self, Wakes, assert_passed, block_on, ms, on_thread, poll_idly, poll_with, until, us, wait,
    waiting, worker,
};
use futures::future::{Either, join_all, select};
use tickless::coarse::{self, Sleep, sleep, sleep_until, timeout, timeout_at};
use tickless::wheel::{Restart, StartOutcome, WheelKind, WheelTimer};
use tickless::{Driver, Unparker, Worker};

const HOUR: Duration = Duration::from_secs(3600);

fn after(duration: Duration) -> coarse::Instant {
    coarse::Instant::now() + duration
}

/// A waker that counts wake-ups and unparks a worker, as the waker of an executor does. Another worker may fire the
/// worker's timers, and then only this waker ends the worker's park.
struct Rings {
    wakes: Wakes,
    unparker: Unparker,
}

impl Rings {
    fn new(worker: &Worker) -> (Arc<Self>, Waker) {
        let rings = Arc::new(Self {
            wakes: Wakes::default(),
            unparker: worker.unparker(),
        });
        let waker = Waker::from(Arc::clone(&rings));
        (rings, waker)
    }
}

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.wakes.note();
        self.unparker.unpark();
    }
}

/// Runs all kinds of sleeps and limits to their end.
async fn use_all() {
    for micros in [0, 1, 999, 1_000, 1_001, 2_500, 17_300] {
        let start = Instant::now();
        sleep(us(micros)).await;
        assert_passed(start, us(micros));
        let deadline = after(us(micros));
        sleep_until(deadline).await;
        assert!(coarse::Instant::now() >= deadline);
    }
    let start = Instant::now();
    assert!(timeout(ms(3), pending::<()>()).await.is_err());
    assert_passed(start, ms(3));
    assert!(timeout_at(after(ms(2)), pending::<()>()).await.is_err());
    assert_passed(start, ms(5));
    assert_eq!(timeout(HOUR, ready(7)).await, Ok(7));
    // Both queues of one thread.
    let start = Instant::now();
    let (exact, coarse) = (pin!(tickless::time::sleep(ms(2))), pin!(sleep(HOUR)));
    assert!(matches!(select(exact, coarse).await, Either::Left(_)));
    assert_passed(start, ms(2));
    let (exact, coarse) = (pin!(tickless::time::sleep(HOUR)), pin!(sleep(ms(2))));
    assert!(matches!(select(exact, coarse).await, Either::Right(_)));
    assert_passed(start, ms(4));
    // Reset, pending and fired.
    let mut moved = pin!(sleep(HOUR));
    assert!(poll_idly(moved.as_mut()).is_pending());
    for millis in [70, 3, 2] {
        let start = Instant::now();
        moved.as_mut().reset(after(ms(millis)));
        moved.as_mut().await;
        assert_passed(start, ms(millis));
    }
}

#[test]
fn nothing_is_early_on_any_thread() {
    let _patience = support::begin();
    block_on(use_all());
    support::in_tokio(use_all());
    on_thread(|| worker().block_on(use_all()));
    on_thread(|| async_io::block_on(use_all()));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build()
        .expect("a runtime")
        .block_on(async {
            let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(use_all_sent())).collect();
            for task in tasks {
                task.await.expect("it does not panic");
            }
        });
}

/// Uses all futures that a runtime of many threads takes.
async fn use_all_sent() {
    for millis in 0..12 {
        let start = Instant::now();
        sleep(ms(millis)).await;
        assert_passed(start, ms(millis));
        assert!(timeout(ms(1), pending::<()>()).await.is_err());
        assert_passed(start, ms(millis + 1));
    }
}

#[test]
#[cfg_attr(portable_host, ignore = "no event loops on the portable host")]
fn an_event_loop_is_woken_for_coarse_timers() {
    let _patience = support::begin();
    let driver = Driver::new().expect("the thread is free");
    let (wakes, waker) = Wakes::new();
    let mut future = pin!(use_all());
    let mut rounds = 0;
    loop {
        // Before the poll: another thread may fire what is due after it.
        let before = wakes.count();
        if poll_with(future.as_mut(), &waker).is_ready() {
            break;
        }
        while wakes.count() == before {
            wait(&driver);
            let _any = driver.turn();
        }
        rounds += 1;
    }
    assert!(rounds >= 10, "it waited");
}

#[test]
fn the_next_deadline_of_a_worker_counts_coarse_timers() {
    let _patience = support::begin();
    let worker = worker();
    let (_rings, waker) = Rings::new(&worker);
    // Another worker may fire what is due.
    let mut near = Box::pin(sleep(HOUR));
    assert!(poll_with(near.as_mut(), &waker).is_pending());
    let next = worker.next_deadline().expect("one is queued");
    assert!(next >= near.deadline());
    near.as_mut().reset(after(ms(4)));
    while !near.is_elapsed() {
        let _any = worker.park();
    }
    assert!(coarse::Instant::now() >= near.deadline());
    drop(near);
    let mut far = Box::pin(sleep(HOUR));
    assert!(poll_idly(far.as_mut()).is_pending());
    assert!(
        worker
            .next_deadline()
            .is_some_and(|next| next >= far.deadline())
    );
}

#[test]
fn times_at_both_ends_are_no_trouble() {
    let _patience = support::begin();
    let past = pin!(sleep_until(coarse::Instant::now() - ms(20)));
    assert!(poll_idly(past).is_ready());
    let none = pin!(sleep(Duration::ZERO));
    assert!(poll_idly(none).is_ready());
    let month = Duration::from_secs(30 * 86_400);
    let mut sleeps: Vec<_> = [
        Duration::MAX,
        Duration::from_secs(u64::MAX / 10),
        12 * month,
        month,
    ]
    .map(|duration| Box::pin(sleep(duration)))
    .into();
    for sleep in &mut sleeps {
        assert!(poll_idly(sleep.as_mut()).is_pending());
        assert!(poll_idly(sleep.as_mut()).is_pending());
        assert!(!sleep.is_elapsed() && sleep.deadline() > after(HOUR));
    }
    block_on(sleep(ms(2)));
}

#[test]
fn a_sleep_says_what_it_is() {
    let _patience = support::begin();
    let deadline = after(Duration::new(5, 123_456_789));
    let mut sleep = pin!(sleep_until(deadline));
    assert_eq!(sleep.deadline(), deadline);
    assert!(!sleep.is_elapsed());
    assert!(poll_idly(sleep.as_mut()).is_pending());
    sleep.as_mut().reset(deadline + us(1));
    assert_eq!(sleep.deadline(), deadline + us(1));
    let text = format!("{sleep:?}");
    assert!(
        text.starts_with("Sleep { deadline: ") && text.contains("is_elapsed: false"),
        "{text}"
    );
    sleep.as_mut().reset(coarse::Instant::now());
    until(|| sleep.is_elapsed());
    for _ in 0..3 {
        assert!(poll_idly(sleep.as_mut()).is_ready(), "it is fused");
    }
    assert!(format!("{sleep:?}").contains("is_elapsed: true"));
}

/// Each restart moves the deadline later by less than a slot, which is the cheap path. At the end the timer fires, and
/// not early.
#[test]
fn a_deadline_pushed_out_for_every_packet_holds() {
    let _patience = support::begin();
    for idle in [us(1_500), ms(40), ms(90)] {
        let (wakes, waker) = Wakes::new();
        let mut sleep = waiting(|| sleep(idle), &waker);
        let mut last = Instant::now();
        for _ in 0..20_000 {
            last = Instant::now();
            sleep.as_mut().reset(coarse::Instant::from_std(last + idle));
        }
        until(|| sleep.is_elapsed());
        assert_passed(last, idle);
        // Once, unless this thread was not executed for so long in the loop.
        assert!(poll_idly(sleep.as_mut()).is_ready());
        assert!(wakes.count() <= 1);
    }
}

#[test]
fn a_reset_to_an_earlier_time_wakes_the_task_then() {
    let _patience = support::begin();
    for from in [ms(50), ms(500), Duration::from_secs(20), HOUR, 1000 * HOUR] {
        let (wakes, waker) = Wakes::new();
        let mut sleep = pin!(sleep(from));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        let start = Instant::now();
        sleep.as_mut().reset(after(ms(5)));
        wakes.wait();
        assert_passed(start, ms(5));
        assert!(poll_idly(sleep).is_ready());
        assert_eq!(wakes.count(), 1);
    }
}

#[test]
fn the_latest_waker_is_woken_and_no_other() {
    let _patience = support::begin();
    let (early, early_waker) = Wakes::new();
    let (late, late_waker) = Wakes::new();
    let mut sleep = Box::pin(sleep(HOUR));
    assert!(poll_with(sleep.as_mut(), &early_waker).is_pending());
    let mut sleep = on_thread(move || {
        assert!(poll_with(sleep.as_mut(), &late_waker).is_pending());
        sleep
    });
    sleep.as_mut().reset(after(ms(5)));
    late.wait();
    assert!(poll_idly(sleep.as_mut()).is_ready());
    assert_eq!((early.count(), late.count()), (0, 1));
}

#[test]
fn a_sleep_queued_on_one_thread_is_reset_on_another() {
    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let mut moved = Box::pin(sleep(HOUR));
    assert!(poll_with(moved.as_mut(), &waker).is_pending());
    let start = Instant::now();
    // To a thread that ends, and to a worker that runs it itself.
    let moved = on_thread(move || {
        moved.as_mut().reset(after(ms(3)));
        moved
    });
    wakes.wait();
    assert_passed(start, ms(3));
    assert!(moved.is_elapsed());

    on_thread(move || {
        let worker = worker();
        let (rings, waker) = Rings::new(&worker);
        let mut moved = on_thread(move || {
            let mut moved = Box::pin(sleep(HOUR));
            assert!(poll_with(moved.as_mut(), &waker).is_pending());
            moved
        });
        let start = Instant::now();
        moved.as_mut().reset(after(ms(3)));
        while rings.wakes.count() == 0 {
            let _any = worker.park();
        }
        assert_passed(start, ms(3));
    });
}

#[test]
fn a_waker_that_panics_harms_no_other_timer() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let _patience = support::begin();
    let run = |good: Waker| {
        let bad = Waker::from(Arc::new(Panics));
        let sleeps = (0..20).map(|number| {
            let waker = if number % 2 == 0 { &bad } else { &good };
            waiting(|| sleep(ms(3)), waker)
        });
        sleeps.collect::<Vec<_>>()
    };
    let (wakes, waker) = Wakes::new();
    let sleeps = run(waker);
    until(|| wakes.count() == 10 && sleeps.iter().all(|sleep| sleep.is_elapsed()));
    block_on(sleep(ms(1)));
    on_thread(move || {
        let worker = worker();
        let (rings, waker) = Rings::new(&worker);
        let _sleeps = run(waker);
        while rings.wakes.count() < 10 {
            let _any = worker.park();
        }
        worker.block_on(sleep(ms(1)));
    });
}

#[test]
fn a_waker_may_use_coarse_timers() {
    struct Again {
        rounds: AtomicU32,
        sleeps: Mutex<Vec<Pin<Box<Sleep>>>>,
        unparker: Option<Unparker>,
    }
    impl Wake for Again {
        fn wake(self: Arc<Self>) {
            if self.rounds.fetch_add(1, Ordering::AcqRel) < 10 {
                let waker = Waker::from(Arc::clone(&self));
                let next = waiting(|| sleep(ms(1)), &waker);
                let mut sleeps = self.sleeps.lock().expect("no panic");
                // The one that fires is among those that go. The next may have fired already, on another thread.
                sleeps.retain(|sleep| !sleep.is_elapsed());
                sleeps.push(next);
            }
            if let Some(unparker) = &self.unparker {
                unparker.unpark();
            }
        }
    }
    let _patience = support::begin();
    let again = |unparker| {
        Arc::new(Again {
            rounds: AtomicU32::new(0),
            sleeps: Mutex::default(),
            unparker,
        })
    };
    let foreign = again(None);
    Waker::from(Arc::clone(&foreign)).wake();
    until(|| foreign.rounds.load(Ordering::Acquire) == 11);
    let worker = worker();
    let own = again(Some(worker.unparker()));
    Waker::from(Arc::clone(&own)).wake();
    while own.rounds.load(Ordering::Acquire) < 11 {
        let _any = worker.park();
    }
}

#[test]
fn a_hundred_thousand_timers_fire_and_none_is_early() {
    let _patience = support::begin();
    let early = Arc::new(AtomicU32::new(0));
    let run = |early: Arc<AtomicU32>| async move {
        let sleeps = (0..50_000_u64).map(|number| {
            let early = Arc::clone(&early);
            async move {
                let sleep = sleep(us(1 + number * 7919 % 300_000));
                let deadline = sleep.deadline();
                sleep.await;
                if coarse::Instant::now() < deadline {
                    early.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        join_all(sleeps).await;
    };
    let other = {
        let early = Arc::clone(&early);
        thread::spawn(move || worker().block_on(run(early)))
    };
    block_on(run(Arc::clone(&early)));
    other.join().expect("it does not panic");
    assert_eq!(early.load(Ordering::Relaxed), 0);
}

/// Timeouts are dropped before they fire, as nearly all timeouts are.
#[test]
fn a_hundred_thousand_timeouts_are_dropped_by_another_thread() {
    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let mut sleeps = Vec::new();
    for number in 0..100_000_u64 {
        let mut sleep = Box::pin(sleep(HOUR + us(number * 104_729)));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        sleeps.push(sleep);
    }
    on_thread(move || {
        for (number, sleep) in sleeps.iter_mut().enumerate() {
            if number % 3 == 0 {
                sleep.as_mut().reset(after(HOUR * 2));
            }
        }
        drop(sleeps);
    });
    assert_eq!(wakes.count(), 0);
    assert_eq!(Arc::strong_count(&wakes), 2);
}

#[test]
fn a_coarse_interval_keeps_its_phase() {
    let _patience = support::begin();
    let (start, period) = (coarse::Instant::now(), ms(2));
    let mut interval = coarse::interval_at(start, period);
    for tick in 0..5 {
        let due = start + period * tick;
        assert_eq!(block_on(interval.tick()), due);
        assert!(coarse::Instant::now() >= due);
    }
}

#[test]
#[should_panic(expected = "`period` must be non-zero.")]
fn a_coarse_interval_has_a_period() {
    let _interval = coarse::interval(Duration::ZERO);
}

/// A task that records its number when it is woken, and drops a value that it was given.
struct Turn {
    number: usize,
    log: Arc<Mutex<Vec<usize>>>,
    given: Mutex<Option<Box<dyn Send>>>,
    /// The thread that is to wake the task, and whether another thread woke it.
    home: thread::ThreadId,
    helped: Arc<AtomicBool>,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        // Before the entry in the log, for which the test waits.
        if thread::current().id() != self.home {
            self.helped.store(true, Ordering::Relaxed);
        }
        self.log.lock().unwrap().push(self.number);
        let given = self.given.lock().unwrap().take();
        drop(given);
    }
}

/// One tick has more due tasks than are woken at once, and a timer with a callback among them. They fire in their
/// order, and a task before the callback may drop the timer of the callback, which has not begun.
#[test]
fn tasks_wake_in_turn_and_may_drop_the_timer_with_a_callback_behind_them() {
    const TASKS: usize = 90;
    const CALLED: usize = 45;
    let _patience = support::begin();
    let worker = worker();
    let mut left = vec![true, false];
    let mut tries = 0;
    while let Some(&drops) = left.last() {
        tries += 1;
        assert!(tries < 100, "this thread was late each time");
        let log = Arc::new(Mutex::new(Vec::new()));
        let helped = Arc::new(AtomicBool::new(false));
        let deadline = after(ms(200));
        let called = {
            let (log, helped) = (Arc::clone(&log), Arc::clone(&helped));
            let home = thread::current().id();
            Box::pin(WheelTimer::with_kind(
                WheelKind::Global,
                move |_: &mut _| {
                    if thread::current().id() != home {
                        helped.store(true, Ordering::Relaxed);
                    }
                    log.lock().unwrap().push(TASKS);
                    Restart::No
                },
            ))
        };
        let turns: Vec<_> = (0..TASKS)
            .map(|number| {
                Arc::new(Turn {
                    number,
                    log: Arc::clone(&log),
                    given: Mutex::default(),
                    home: thread::current().id(),
                    helped: Arc::clone(&helped),
                })
            })
            .collect();
        let arm = |turn: &Arc<Turn>| {
            let mut sleep = Box::pin(sleep_until(deadline));
            let _pending = poll_with(sleep.as_mut(), &Waker::from(Arc::clone(turn)));
            sleep
        };
        let mut sleeps: Vec<_> = turns[..CALLED].iter().map(arm).collect();
        assert_eq!(called.as_ref().start(deadline), StartOutcome::Started);
        sleeps.extend(turns[CALLED..].iter().map(arm));
        // A sleep that was armed much later than another waits in a finer level of the wheel, and fires before it.
        if after(ms(150)) > deadline {
            continue;
        }
        let mut expected: Vec<_> = (0..TASKS).collect();
        if drops {
            *turns[CALLED - 1].given.lock().unwrap() = Some(Box::new(called));
        } else {
            expected.insert(CALLED, TASKS);
            *turns[TASKS - 1].given.lock().unwrap() = Some(Box::new(called));
        }
        // No park, in which another thread would look after these timers.
        while log.lock().unwrap().len() < expected.len() {
            thread::sleep(ms(1));
            let _turn = worker.turn();
        }
        // Where this thread is late another one helps, and two that fire at once wake in no order.
        if helped.load(Ordering::Relaxed) {
            continue;
        }
        assert_eq!(*log.lock().unwrap(), expected);
        left.pop();
    }
}
