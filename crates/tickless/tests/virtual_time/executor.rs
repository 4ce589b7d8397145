//! Tests of the clock of an executor, with its worker, the threads that block on it, and its blocking jobs.

use std::future::{Future, poll_fn};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tickless::executor::io::Async;
use tickless::hrtimer::{HrTimer, Restart};
use tickless::realtime::{self, Ended, OnSet};
use tickless::time::{self, Duration, Instant, sleep, timeout};
use tickless::wheel::{self, Tick, WheelTimer};
use tickless::{Executor, coop, task};

use crate::support::message_of;

const DAY: Duration = Duration::from_secs(86_400);

fn executor() -> Executor {
    Executor::builder()
        .workers(1)
        .build()
        .expect("threads can be started")
}

fn paused<F: Future>(future: F) -> F::Output {
    executor().block_on(async {
        time::pause();
        future.await
    })
}

#[test]
fn tasks_and_what_blocks_on_them_have_one_clock() {
    paused(async {
        let start = Instant::now();
        let task = task::spawn(async move {
            assert_eq!(Instant::now(), start);
            sleep(DAY).await;
            assert_eq!(start.elapsed(), DAY);
            sleep(DAY).await;
        });
        sleep(DAY / 2).await;
        assert_eq!(start.elapsed(), DAY / 2);
        task.await.expect("it does not panic");
        assert_eq!(start.elapsed(), 2 * DAY);
    });
}

#[test]
fn a_task_stops_the_clock_of_all() {
    executor().block_on(async {
        let start = task::spawn(async {
            time::pause();
            Instant::now()
        })
        .await
        .expect("it does not panic");
        assert_eq!(Instant::now(), start);
        sleep(DAY).await;
        assert_eq!(start.elapsed(), DAY);
    });
}

/// Keeps this thread executing for `time`.
fn spin(time: Duration) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Another thread pauses the clock while the worker looks for a task, or polls one for the first time.
#[test]
fn tasks_that_begin_while_the_clock_is_paused_follow() {
    for round in 0..1_000 {
        executor().block_on(async {
            // In every second round the pause is the first that the worker hears of.
            let polls = 20 * (round % 2);
            let early = (polls > 0).then(|| {
                task::spawn(async move {
                    spin(Duration::from_micros(polls));
                    sleep(DAY).await;
                })
            });
            spin(Duration::from_micros(polls / 20 * (2 * (round % 64))));
            time::pause();
            let start = Instant::now();
            let late = task::spawn(async {
                let begin = Instant::now();
                sleep(2 * DAY).await;
                (begin, Instant::now())
            });
            if let Some(early) = early {
                early.await.expect("it does not panic");
            }
            let times = late.await.expect("it does not panic");
            assert_eq!(times, (start, start + 2 * DAY));
        });
    }
}

#[test]
fn tasks_that_slept_before_the_first_pause_follow() {
    executor().block_on(async {
        let tasks: Vec<_> = (1..=3)
            .map(|days| {
                task::spawn(async move {
                    let start = Instant::now();
                    sleep(days * DAY).await;
                    start.elapsed()
                })
            })
            .collect();
        // They run on the worker's thread: until they wait there is none to look at.
        while tickless::inspect::snapshot()
            .threads
            .iter()
            .all(|thread| thread.timers.len() < 3)
        {
            std::thread::yield_now();
        }
        let second = Duration::from_secs(1);
        let start = Instant::now();
        time::pause();
        for (days, task) in (1..).zip(tasks) {
            let elapsed = task.await.expect("it does not panic");
            assert!(elapsed >= days * DAY);
        }
        assert!(start.elapsed() + 30 * second >= 3 * DAY);
    });
}

#[test]
fn what_is_due_has_run_when_an_advance_returns() {
    paused(async {
        let start = Instant::now();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for step in [3, 1, 2] {
            let seen = Arc::clone(&seen);
            drop(task::spawn(async move {
                sleep(step * DAY).await;
                // What it does then takes turns, and another timer on the way.
                coop::yield_now().await;
                sleep(DAY / 2).await;
                seen.lock().expect("no panic").push(start.elapsed());
            }));
        }
        // Armed by the time at which the first step asks for them.
        time::advance(3 * DAY).await;
        assert_eq!(*seen.lock().expect("no panic"), [DAY * 3 / 2, DAY * 5 / 2]);
        assert_eq!(start.elapsed(), 3 * DAY);
        time::advance(DAY / 2).await;
        assert_eq!(seen.lock().expect("no panic").len(), 3);
    });
}

#[test]
fn a_task_that_spins_until_a_timer_fired_is_served() {
    paused(async {
        let (done, mut is_done) = futures::channel::oneshot::channel();
        drop(task::spawn(async move {
            sleep(DAY).await;
            done.send(()).expect("it is waited for");
        }));
        let spins = task::spawn(async move {
            sleep(DAY).await;
            while is_done.try_recv().expect("it is sent").is_none() {
                coop::yield_now().await;
            }
        });
        spins.await.expect("it does not panic");
    });
}

#[test]
fn a_blocking_job_holds_the_time() {
    paused(async {
        let start = Instant::now();
        let job = task::spawn_blocking(|| {
            std::thread::sleep(Duration::from_millis(30));
            7
        });
        let job = timeout(DAY, job).await.expect("no time has passed");
        assert_eq!(job.expect("it does not panic"), 7);
        assert_eq!(start.elapsed(), Duration::ZERO);

        // One that no task waits for: what sleeps goes on after it.
        drop(task::spawn_blocking(|| {
            std::thread::sleep(Duration::from_millis(30));
        }));
        sleep(DAY).await;
        assert_eq!(start.elapsed(), DAY);
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no epoll on the portable host")]
fn a_descriptor_that_becomes_ready_comes_before_the_time_passes() {
    paused(async {
        let start = Instant::now();
        let (mut there, here) = UnixStream::pair().expect("descriptors");
        here.set_nonblocking(true).expect("it can be");
        let reads = task::spawn(async move {
            let here = Async::new(here).expect("it is watched");
            let read = here.read_with(|mut stream: &UnixStream| {
                let mut byte = [0];
                std::io::Read::read(&mut stream, &mut byte)
            });
            timeout(DAY, read).await.is_ok()
        });
        there.write_all(b"x").expect("there is room");
        assert!(reads.await.expect("it does not panic"));
        assert_eq!(start.elapsed(), Duration::ZERO);

        // One that never does: the time passes all the same.
        let (_there, here) = UnixStream::pair().expect("descriptors");
        here.set_nonblocking(true).expect("it can be");
        let waits = task::spawn(async move {
            let here = Async::new(here).expect("it is watched");
            timeout(DAY, here.readable()).await.is_err()
        });
        assert!(waits.await.expect("it does not panic"));
        assert_eq!(start.elapsed(), DAY);
    });
}

#[test]
fn several_workers_have_no_clock_that_stops() {
    let executor = Executor::builder()
        .workers(2)
        .build()
        .expect("threads can be started");
    let refused = message_of(|| executor.block_on(async { time::pause() }));
    assert!(refused.starts_with("`time::pause()` requires the `current_thread` Tokio runtime."));
}

#[test]
fn callbacks_of_a_task_come_by_the_clock_of_its_executor() {
    paused(async {
        let start = Instant::now();
        let (exact, coarse) = task::spawn(async move {
            let log = Arc::new(Mutex::new(Vec::new()));
            let notes = |name: &'static str| {
                let log = Arc::clone(&log);
                move || log.lock().expect("no panic").push((name, start.elapsed()))
            };
            let (exact, coarse) = (notes("exact"), notes("coarse"));
            let exact = Box::pin(HrTimer::new(move |_| {
                exact();
                Restart::No
            }));
            let coarse = Box::pin(WheelTimer::new(move |_| {
                coarse();
                Restart::No
            }));
            assert!(exact.as_ref().start(start + DAY).has_armed());
            let tick = Tick(wheel::now().0 + 1_000);
            assert!(coarse.as_ref().start(tick).has_armed());
            time::advance(DAY).await;
            let log = std::mem::take(&mut *log.lock().expect("no panic"));
            let [first, second] = log[..] else {
                panic!("{log:?}")
            };
            assert_eq!((first.0, second.0), ("coarse", "exact"));
            (second.1, first.1)
        })
        .await
        .expect("it does not panic");
        assert_eq!(exact, DAY);
        let second = Duration::from_secs(1);
        assert!((second..2 * second).contains(&coarse), "{coarse:?}");
        assert_eq!(start.elapsed(), DAY);
    });
}

/// The worker and the threads in `block_on` both move the clock.
#[test]
fn a_waker_that_panics_ends_neither_the_worker_nor_who_blocks() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("in a waker");
        }
    }
    for _ in 0..20 {
        let executor = executor();
        let task = executor.spawn(async {
            time::pause();
            let waker = Waker::from(Arc::new(Panics));
            let mut one = Box::pin(sleep(DAY));
            let polled = one.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            sleep(2 * DAY).await;
        });
        executor.block_on(task).expect("it does not panic");
    }
}

#[test]
fn each_expiry_of_a_task_is_told_at_once() {
    paused(async {
        let task = task::spawn(async {
            for _ in 0..1_290 {
                assert_eq!(timeout(DAY, sleep(DAY)).await, Ok(()));
                let mut over = pin!(sleep(Duration::ZERO));
                let polled = poll_fn(|context| Poll::Ready(over.as_mut().poll(context))).await;
                assert!(polled.is_ready());
            }
        });
        task.await.expect("it does not panic");
    });
}

#[test]
fn a_task_sets_the_wall_clock_for_others() {
    paused(async {
        let now = realtime::now();
        let alarm = task::spawn(realtime::sleep_until(now + 2 * DAY, OnSet::Follow));
        let sets = task::spawn(async move {
            sleep(DAY).await;
            realtime::set(realtime::now() + DAY);
        });
        let start = Instant::now();
        assert_eq!(alarm.await.expect("it ends"), Ended::DueAfterSet);
        sets.await.expect("it ends");
        assert_eq!(start.elapsed(), DAY);
    });
}
