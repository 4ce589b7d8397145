//! Tests that only the making of workers allocates. Allocations are counted over all threads of the process.
//!
//! The file has one test, so that nothing else runs while allocations are counted. The first use is not counted: a
//! thread gets its base with its first timer, and the first timer of the process starts the expiry thread and measures
//! the clock.
#![expect(unsafe_code, reason = "the test counts what is allocated")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use rustix::event::epoll;
use support::{ms, poll_with, us, wait};
use tickless::hrtimer::{
    Boottime, Expired, HrTimer, Instant, Monotonic, Realtime, Restart, Setup, Span, Stage, Start,
    now,
};
use tickless::time::{self, DelayQueue, Interval, Sleep, interval, sleep, timeout};
use tickless::wheel::WheelTimer;
use tickless::worker::EpollEvents;
use tickless::{Driver, Worker, clock, coarse};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Fails if `body` allocates, or if any other thread allocates meanwhile.
#[track_caller]
fn without_allocation<R>(what: &str, body: impl FnOnce() -> R) -> R {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    let result = body();
    let count = ALLOCATIONS.load(Ordering::SeqCst) - before;
    assert_eq!(count, 0, "allocations: {what}");
    result
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor that runs futures on this thread, with a waker that is made once.
struct Bare(Waker);

impl Bare {
    fn new() -> Self {
        Self(Waker::from(Arc::new(Unpark(thread::current()))))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            match poll_with(future.as_mut(), &self.0) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Arms, cancels and resets timers, which works on every thread in the same way.
fn queue(waker: &Waker) {
    for _ in 0..100 {
        let mut sleep = pin!(sleep(ms(1_000)));
        assert!(poll_with(sleep.as_mut(), waker).is_pending());
        sleep.as_mut().reset(time::Instant::now() + ms(500));
        assert!(poll_with(sleep.as_mut(), waker).is_pending());
        sleep.as_mut().reset(time::Instant::now() + ms(2_000));
    }
    for _ in 0..100 {
        let mut sleep = pin!(coarse::sleep(ms(1_000)));
        assert!(poll_with(sleep.as_mut(), waker).is_pending());
        sleep.as_mut().reset(time::Instant::now() + ms(500));
        assert!(poll_with(sleep.as_mut(), waker).is_pending());
        sleep.as_mut().reset(time::Instant::now() + ms(2_000));
    }
    let idle = pin!(WheelTimer::new(|_| Restart::No));
    let idle = idle.as_ref();
    for _ in 0..100 {
        let _ = idle.start(ms(5_000));
        assert!(idle.start_if_earlier(ms(4_000)).has_armed());
        let _was_queued = idle.cancel_queued();
        assert!(idle.start_if_idle(ms(5_000)).has_armed());
        assert!(idle.cancel());
    }
    let timer = pin!(HrTimer::new(|_| Restart::No));
    let timer = timer.as_ref();
    for _ in 0..100 {
        let _ = timer.start(Start::after(Span::from_secs(5)));
        let _ = timer.start(Start::after(Span::from_secs(4)).slack(Span::from_millis(1)));
        let _ = timer
            .start_checked(Start::after(Span::from_secs(3)).pinned())
            .expect("it is not over");
        assert!(timer.is_active() && timer.deadline().is_some());
        let _was_queued = timer.try_cancel();
        let _ = timer.start(Start::after(Span::from_secs(5)));
        assert!(timer.cancel());
    }
}

/// Runs all kinds of futures to their end.
async fn futures() {
    sleep(us(200)).await;
    sleep(us(0)).await;
    assert!(
        timeout(us(200), std::future::pending::<()>())
            .await
            .is_err()
    );
    assert!(timeout(ms(1_000), std::future::ready(())).await.is_ok());
    coarse::sleep(us(1_200)).await;
    assert!(
        coarse::timeout(us(200), std::future::pending::<()>())
            .await
            .is_err()
    );
}

/// Waits for ticks of an interval that was polled before.
async fn ticks(interval: &mut Interval) {
    for _ in 0..5 {
        interval.tick().await;
    }
    interval.reset();
    interval.tick().await;
}

/// Lets timers fire, on several clocks and in both stages. `wait` lets some time pass.
fn fire(wait: impl Fn()) {
    let fired = Arc::new(AtomicU32::new(0));
    let count = || {
        let fired = Arc::clone(&fired);
        move || fired.fetch_add(1, Ordering::Release)
    };
    let (first, second, third) = (count(), count(), count());
    let periodic = pin!(HrTimer::new(move |expired| {
        expired.forward_now(Span::from_micros(50));
        if first() < 3 {
            Restart::Yes
        } else {
            Restart::No
        }
    }));
    let soft = pin!(HrTimer::with_setup(
        Setup::new().stage(Stage::Soft),
        move |_: &mut Expired<'_, '_, Boottime>| {
            second();
            Restart::No
        },
    ));
    let of_day = pin!(HrTimer::with_setup(
        Setup::new(),
        move |_: &mut Expired<'_, '_, Realtime>| {
            third();
            Restart::No
        },
    ));
    // The closures own clones of one allocation, made before.
    without_allocation("timers that fire", || {
        let soon: Instant<Monotonic> = now();
        let _ = periodic.as_ref().start(Start::at(soon));
        let _ = soft.as_ref().start(Start::after(Span::from_micros(100)));
        let _ = of_day.as_ref().start(Start::at(now()));
        while periodic.as_ref().is_active()
            || soft.as_ref().is_active()
            || of_day.as_ref().is_active()
        {
            wait();
        }
    });
    assert!(fired.load(Ordering::Acquire) >= 4);
}

/// Uses timers of one thread on another thread. The other thread runs once before, and a second time while its
/// allocations are counted.
fn two_threads(waker: &Waker, meanwhile: impl Fn()) {
    let sleeps: Arc<Vec<Mutex<Pin<Box<Sleep>>>>> = Arc::new(
        (0..32)
            .map(|_| Mutex::new(Box::pin(sleep(ms(5_000)))))
            .collect(),
    );
    let step = Arc::new(AtomicU32::new(0));
    let (theirs, their_step) = (Arc::clone(&sleeps), Arc::clone(&step));
    let reach = |step: &AtomicU32, value| {
        while step.load(Ordering::Acquire) < value {
            thread::yield_now();
        }
    };
    let other = thread::spawn(move || {
        let (_, waker) = support::Wakes::new();
        for round in 0..2 {
            reach(&their_step, 2 * round + 1);
            queue(&waker);
            for sleep in theirs.iter() {
                let mut sleep = sleep.lock().expect("no thread panics with it");
                assert!(poll_with(sleep.as_mut(), &waker).is_pending());
                sleep.as_mut().reset(time::Instant::now() + ms(9_000));
            }
            their_step.fetch_add(1, Ordering::AcqRel);
        }
        reach(&their_step, 5);
    });
    let ours = || {
        for sleep in sleeps.iter() {
            let mut sleep = sleep.lock().expect("no thread panics with it");
            assert!(poll_with(sleep.as_mut(), waker).is_pending());
        }
        step.fetch_add(1, Ordering::AcqRel);
        while step.load(Ordering::Acquire) % 2 == 1 {
            meanwhile();
            thread::yield_now();
        }
    };
    ours();
    without_allocation("two threads", ours);
    step.fetch_add(1, Ordering::AcqRel);
    other.join().expect("it does not panic");
}

/// Inserts, resets, removes and expires values in a queue that was as full before.
fn delay_queue(bare: &Bare) {
    let mut queue = DelayQueue::new();
    let mut round = || {
        let keys: [_; 64] = std::array::from_fn(|_| queue.insert((), ms(1_000)));
        for (key, step) in keys.iter().zip(1_u64..) {
            queue.reset(key, us(20 * (step % 8)));
            if step % 3 == 0 {
                queue.remove(key);
            }
        }
        let drain = async {
            while poll_fn(|context| queue.poll_expired(context))
                .await
                .is_some()
            {}
        };
        bare.block_on(drain);
    };
    round();
    without_allocation("a delay queue", round);
}

fn on_a_thread_without_a_worker() {
    let bare = Bare::new();
    bare.block_on(futures());
    without_allocation("arm, reset and cancel", || queue(&bare.0));
    without_allocation("futures", || bare.block_on(futures()));
    let mut interval = without_allocation("an interval", || interval(us(200)));
    bare.block_on(interval.tick());
    without_allocation("ticks", || bare.block_on(ticks(&mut interval)));
    delay_queue(&bare);
    fire(|| thread::sleep(us(50)));
    two_threads(&bare.0, || {});
}

fn on_a_worker() {
    let worker = Worker::new().expect("the thread is free");
    let (_, waker) = support::Wakes::new();
    worker.block_on(futures());
    without_allocation("arm, reset and cancel on a worker", || queue(&waker));
    without_allocation("futures on a worker", || worker.block_on(futures()));
    let mut interval = interval(us(200));
    worker.block_on(interval.tick());
    without_allocation("ticks on a worker", || {
        worker.block_on(ticks(&mut interval));
    });
    let park = || {
        let _any = worker.park();
    };
    let turn = || {
        let _any = worker.turn();
    };
    fire(park);
    two_threads(&waker, turn);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
    let mut events = EpollEvents::with_capacity(1);
    without_allocation("epoll on a worker", || {
        let mut sleep = pin!(sleep(us(300)));
        let _any = poll_with(sleep.as_mut(), &waker);
        while !sleep.is_elapsed() {
            let _any = worker.park_on_epoll(&epoll, &mut events).expect("it waits");
        }
    });
}

fn in_an_event_loop() {
    let driver = Driver::new().expect("the thread is free");
    let (_, waker) = support::Wakes::new();
    let turn = || {
        wait(&driver);
        let _any = driver.turn();
    };
    let mut context = Context::from_waker(&waker);
    let mut warm = pin!(futures());
    while warm.as_mut().poll(&mut context).is_pending() {
        turn();
    }
    without_allocation("arm, reset and cancel in an event loop", || queue(&waker));
    without_allocation("futures in an event loop", || {
        let mut future = pin!(futures());
        while future.as_mut().poll(&mut context).is_pending() {
            turn();
        }
    });
    fire(turn);
}

#[test]
#[cfg_attr(portable_host, ignore = "no epoll on the portable host")]
fn no_path_but_the_making_of_workers_allocates() {
    let _patience = support::begin();
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(ALLOCATIONS.load(Ordering::SeqCst), before + 1, "it counts");
    // The driver, the watcher of clocks that can be set, and the rate of the counter.
    let bare = Bare::new();
    let of_day = pin!(HrTimer::with_setup(
        Setup::new(),
        |_: &mut Expired<'_, '_, Realtime>| Restart::No
    ));
    let _ = of_day.as_ref().start(Start::at(now()));
    while of_day.as_ref().is_active()
        || clock::time_stamp_counter() == Err(clock::Refusal::Calibrating)
    {
        bare.block_on(sleep(us(500)));
    }
    thread::sleep(ms(5));
    on_a_thread_without_a_worker();
    on_a_worker();
    in_an_event_loop();
}
