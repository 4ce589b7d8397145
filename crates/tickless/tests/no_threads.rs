//! Tests on a system that refuses threads at first and allows them later. Each thread that needs the expiry thread gets
//! an error, and no armed timer is lost.
//!
//! Each test has a process of its own, which gives up the rights of the superuser, so that its limit of threads holds.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use support::{
    Wakes, allow_threads, as_mortal, assert_passed, block_on, forbid_threads, ms, panic_of,
    poll_idly, poll_with, until, us,
};
use tickless::hrtimer::{Boottime, Expired, HrTimer, Restart, Setup, Span, Start};
use tickless::time::{Sleep, sleep};
use tickless::wheel::WheelTimer;
use tickless::{StartError, Worker, coarse};

const HOUR: Duration = Duration::from_secs(3600);

#[track_caller]
fn assert_told(use_timer: impl FnMut()) {
    let told = panic_of(use_timer).message;
    assert!(
        told.contains("cannot start its background thread"),
        "{told}"
    );
}

fn queued(duration: Duration) -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(sleep(duration));
    assert!(poll_idly(sleep.as_mut()).is_pending());
    sleep
}

#[test]
fn init_says_that_there_is_no_thread_and_succeeds_later() {
    as_mortal(
        "init_says_that_there_is_no_thread_and_succeeds_later",
        || {
            forbid_threads();
            for _ in 0..3 {
                assert!(matches!(tickless::init(), Err(StartError::Os(_))));
            }
            allow_threads();
            tickless::init().expect("there are threads");
            forbid_threads();
            tickless::init().expect("it runs already");
            block_on(sleep(us(100)));
        },
    );
}

#[test]
fn the_first_use_panics_and_what_follows_works() {
    as_mortal("the_first_use_panics_and_what_follows_works", || {
        let exact = pin!(HrTimer::new(|_| Restart::No));
        let wheel = pin!(WheelTimer::new(|_| Restart::No));
        let mut kept = pin!(sleep(ms(1)));
        let mut coarse_kept = pin!(coarse::sleep(ms(1)));
        forbid_threads();
        assert_told(|| block_on(sleep(ms(1))));
        assert_told(|| block_on(coarse::sleep(ms(1))));
        assert_told(|| assert!(poll_idly(kept.as_mut()).is_pending()));
        assert_told(|| assert!(poll_idly(coarse_kept.as_mut()).is_pending()));
        assert_told(|| {
            assert!(
                !exact
                    .as_ref()
                    .start(Start::after(Span::from_millis(1)))
                    .has_armed()
            )
        });
        assert_told(|| assert!(!wheel.as_ref().start_if_idle(ms(1)).has_armed()));
        assert_told(|| assert!(!wheel.as_ref().start(ms(1)).has_armed()));
        // Nothing was armed that would never fire.
        assert!(!exact.as_ref().is_active() && !wheel.as_ref().is_active());
        assert!(!exact.as_ref().cancel() && !wheel.as_ref().cancel());
        allow_threads();
        let start = Instant::now();
        let _ = exact.as_ref().start(Start::after(Span::from_millis(2)));
        assert!(wheel.as_ref().start_if_idle(ms(2)).has_armed());
        block_on(kept.as_mut());
        block_on(coarse_kept.as_mut());
        until(|| !exact.as_ref().is_active() && !wheel.as_ref().is_active());
        assert_passed(start, ms(2));
        thread::spawn(|| block_on(sleep(us(100))))
            .join()
            .expect("it does not panic");
    });
}

/// Several threads use their first timers at once: one of the threads tries to start the expiry thread for all.
#[test]
fn each_thread_is_told_or_its_timer_fires() {
    as_mortal("each_thread_is_told_or_its_timer_fires", || {
        let together = Arc::new(Barrier::new(5));
        let silent = Arc::new(AtomicU32::new(0));
        let threads = [(); 4].map(|()| {
            let (together, silent) = (Arc::clone(&together), Arc::clone(&silent));
            thread::spawn(move || {
                let timer = pin!(HrTimer::new(|_| Restart::No));
                for _ in 0..20 {
                    together.wait();
                    let start = || timer.as_ref().start(Start::after(Span::from_secs(3600)));
                    let told = catch_unwind(AssertUnwindSafe(start)).is_err();
                    silent.fetch_add(u32::from(!told), Ordering::Relaxed);
                    together.wait();
                }
            })
        });
        forbid_threads();
        std::panic::set_hook(Box::new(|_| ()));
        for _ in 0..20 {
            together.wait();
            together.wait();
        }
        assert_eq!(silent.load(Ordering::Relaxed), 0);
        allow_threads();
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        block_on(sleep(us(100)));
    });
}

#[test]
fn a_worker_needs_no_other_thread() {
    as_mortal("a_worker_needs_no_other_thread", || {
        forbid_threads();
        let worker = Worker::new().expect("it runs its timers itself");
        worker.block_on(sleep(us(200)));
        worker.block_on(coarse::sleep(ms(1)));
        worker.block_on(async {
            let slow = coarse::sleep(HOUR);
            assert!(tickless::time::timeout(ms(3), slow).await.is_err());
        });
        let mut left = queued(ms(100));
        // From here on it needs one.
        drop(worker);
        assert_told(|| assert!(poll_idly(left.as_mut()).is_pending()));
        let (wakes, waker) = Wakes::new();
        allow_threads();
        if poll_with(left.as_mut(), &waker).is_pending() {
            wakes.wait();
            assert!(poll_idly(left.as_mut()).is_ready());
        }
    });
}

/// Lets a worker end while the system refuses threads, and leave a sleep. No caller exists who could get an error.
fn leave_a_sleep() -> (Pin<Box<Sleep>>, Arc<Wakes>) {
    let (wakes, waker) = Wakes::new();
    let (give, taken) = mpsc::channel();
    let (leave, stay) = mpsc::channel::<()>();
    let ending = thread::spawn(move || {
        let worker = Worker::new().expect("the thread is free");
        let sleep = support::waiting(|| sleep(ms(2)), &waker);
        give.send(sleep).expect("it is taken");
        let _gone = stay.recv();
        std::mem::forget(worker);
    });
    let left = taken.recv().expect("it is given");
    forbid_threads();
    drop(leave);
    ending.join().expect("it does not panic");
    allow_threads();
    (left, wakes)
}

#[test]
fn what_an_ended_thread_left_fires_when_another_arms_a_timer() {
    as_mortal(
        "what_an_ended_thread_left_fires_when_another_arms_a_timer",
        || {
            let (mut left, wakes) = leave_a_sleep();
            drop(queued(HOUR));
            wakes.wait();
            assert!(poll_idly(left.as_mut()).is_ready());
        },
    );
}

#[test]
fn what_an_ended_thread_left_fires_when_a_worker_takes_turns() {
    as_mortal(
        "what_an_ended_thread_left_fires_when_a_worker_takes_turns",
        || {
            let (mut left, wakes) = leave_a_sleep();
            let worker = Worker::new().expect("the thread is free");
            while wakes.count() == 0 {
                worker.block_on(sleep(ms(1)));
            }
            assert!(poll_idly(left.as_mut()).is_ready());
        },
    );
}

/// The thread that watches for jumps of the clocks is started by the next timer if the first timer could not start it.
#[test]
fn a_watcher_of_the_clocks_that_was_refused_is_started_later() {
    as_mortal(
        "a_watcher_of_the_clocks_that_was_refused_is_started_later",
        || {
            let watches = || {
                let tasks = std::fs::read_dir("/proc/self/task").expect("there is /proc");
                tasks.flatten().any(|task| {
                    let name = std::fs::read_to_string(task.path().join("comm"));
                    name.is_ok_and(|name| name.trim() == "tickless-clocks")
                })
            };
            let _worker = Worker::new().expect("the thread is free");
            let timer = pin!(HrTimer::with_setup(
                Setup::new(),
                |_: &mut Expired<'_, '_, Boottime>| Restart::No
            ));
            let start = || timer.as_ref().start(Start::after(Span::from_secs(3600)));
            forbid_threads();
            let _ = start();
            assert!(!watches());
            allow_threads();
            let _ = start();
            until(watches);
        },
    );
}
