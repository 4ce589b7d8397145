//! Tests of embassy-time on the driver for a process.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use embassy_time::{
    Duration, Instant, TICK_HZ, Ticker, TimeoutError, Timer, with_deadline, with_timeout,
};
use futures::executor::block_on;
use futures::future::join_all;

/// The time for which a test waits for what has to come.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn ticks_are_what_the_program_chose() {
    assert_eq!(TICK_HZ, 1_000_000_000);
}

#[test]
fn timers_of_many_threads_are_never_early() {
    let waits = |thread: u64| async move {
        join_all((0..200_u64).map(|number| async move {
            let deadline =
                Instant::now() + Duration::from_micros((number * 7_919 + thread * 13) % 30_000);
            Timer::at(deadline).await;
            assert!(Instant::now() >= deadline);
        }))
        .await
        .len()
    };
    let threads = (0..4).map(|number| thread::spawn(move || block_on(waits(number))));
    let threads: Vec<_> = threads.collect();
    let ended: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    assert_eq!(ended, 800);
}

#[test]
fn a_ticker_keeps_its_period() {
    block_on(async {
        let period = Duration::from_micros(500);
        let started = Instant::now();
        let mut ticker = Ticker::every(period);
        for tick in 1..=10 {
            ticker.next().await;
            assert!(started.elapsed() >= period * tick);
        }
    });
}

#[test]
fn a_limit_ends_what_never_does() {
    block_on(async {
        let limit = Duration::from_millis(5);
        let ended = with_timeout(limit, std::future::pending::<()>()).await;
        assert!(matches!(ended, Err(TimeoutError)));
        assert!(matches!(
            with_deadline(Instant::MAX, async { 7 }).await,
            Ok(7)
        ));
    });
}

/// A waker that counts how often its task is woken.
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task that is polled many times has one entry in the queue, as in embassy's own queues, and is woken once.
#[test]
fn a_task_that_is_polled_often_is_woken_once() {
    let counter = Arc::new(Counter(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&counter));
    let mut context = Context::from_waker(&waker);
    let mut timer = pin!(Timer::after_millis(200));
    for _ in 0..1_000 {
        assert!(timer.as_mut().poll(&mut context).is_pending());
    }
    // Held by this test, and once by the queue.
    let held = Arc::strong_count(&counter);
    block_on(async {
        while counter.0.load(Ordering::SeqCst) == 0 {
            Timer::after_millis(5).await;
        }
    });
    assert_eq!(held, 3);
    let ready = block_on(poll_fn(|_| Poll::Ready(timer.as_mut().poll(&mut context))));
    assert!(ready.is_ready());
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    // The queue let it go.
    assert_eq!(Arc::strong_count(&counter), 2);
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("this panic is a part of the test");
    }
}

/// Two tasks panic when they are woken, before the deadline of another one and at the same time as another one. All
/// others are woken all the same.
#[test]
fn a_waker_that_panics_stops_no_other_timer() {
    let (sender, receiver) = mpsc::channel();
    let start = Instant::now() + Duration::from_millis(20);
    for number in 0..3 {
        let sender = sender.clone();
        thread::spawn(move || {
            block_on(Timer::at(start + Duration::from_millis(20) * number));
            sender.send(number)
        });
    }
    for _ in 0..2 {
        let waker = Waker::from(Arc::new(Panics));
        let mut context = Context::from_waker(&waker);
        assert!(pin!(Timer::at(start)).poll(&mut context).is_pending());
    }
    let mut woken: Vec<u32> = (0..3)
        .map(|_| {
            receiver
                .recv_timeout(PATIENCE)
                .expect("a task is not woken")
        })
        .collect();
    woken.sort_unstable();
    assert_eq!(woken, [0, 1, 2]);
}
