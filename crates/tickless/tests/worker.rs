//! Tests of threads that run their own timers: turns, parks, `block_on`, the start and the end of workers.
//!
//! This is the only test program of the crate that `cargo xtask mutants` runs.

mod support;

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::{mpsc as channel, oneshot};
use futures::future::join;
use futures::stream::StreamExt;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use support::{
    Wakes, assert_passed, block_on, counted, ms, on_thread, panic_of, poll_idly, poll_with, until,
    us, waiting, waiting_idly, worker,
};
use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart, Setup, Span, Stage, Start};
use tickless::time::{self, sleep};
use tickless::worker::EpollEvents;
use tickless::{Parking, ScheduleError, StartError, Worker, Workers};

const HOUR: Duration = Duration::from_secs(3600);

/// FLUSH-10.
#[test]
fn a_turn_fires_what_is_due_and_tells_what_comes_next() {
    let _patience = support::begin();
    let worker = worker();
    assert!(!worker.is_due());
    assert_eq!(worker.next_deadline(), None);
    let turn = worker.turn();
    assert_eq!((turn.fired, turn.next, turn.more), (0, None, false));

    let sooner = time::Instant::now() + HOUR / 2;
    let late = time::Instant::now() + HOUR;
    let (wakes, waker) = Wakes::new();
    let mut first = pin!(time::sleep_until(sooner));
    let mut second = pin!(time::sleep_until(late));
    assert!(poll_with(second.as_mut(), &waker).is_pending());
    assert_eq!(worker.next_deadline(), Some(late));
    assert!(poll_with(first.as_mut(), &waker).is_pending());
    assert_eq!(worker.next_deadline(), Some(sooner));
    assert_eq!(worker.turn().fired, 0);
    let soon = time::Instant::now() + ms(2);
    first.as_mut().reset(soon);
    assert_eq!(worker.next_deadline(), Some(soon));
    while !worker.is_due() {}
    assert!(time::Instant::now() >= soon);
    let turn = worker.turn();
    assert_eq!((turn.fired, turn.next, turn.more), (1, Some(late), false));
    assert_eq!(wakes.count(), 1);
    assert!(!worker.is_due());
    // The device is armed again, whatever fired: the next turn may be parked for.
    assert_eq!(worker.next_deadline(), Some(late));
}

#[test]
fn a_turn_ends_after_its_budget_and_says_so() {
    let _patience = support::begin();
    let worker = worker();
    let deadline = time::Instant::now() + ms(1);
    let mut sleeps: Vec<_> = (0..5_000)
        .map(|_| Box::pin(time::sleep_until(deadline)))
        .collect();
    for sleep in &mut sleeps {
        let _any = poll_idly(sleep.as_mut());
    }
    let queued = tickless_pending(&sleeps);
    support::spin_past(deadline);
    let mut fired = 0;
    loop {
        let turn = worker.turn();
        fired += turn.fired;
        // A turn fires 4,096 timers at most, and takes 1,024 of them at most from the far wheel.
        assert!((1_024.min(queued)..=4_096).contains(&turn.fired) || fired == queued);
        assert_eq!(turn.more, fired < queued);
        if !turn.more {
            break;
        }
        assert!(worker.is_due());
    }
    assert_eq!(fired, queued);
}

/// Returns the number of sleeps that are queued.
fn tickless_pending(sleeps: &[Pin<Box<time::Sleep>>]) -> u32 {
    let queued = sleeps.iter().filter(|sleep| !sleep.is_elapsed()).count();
    u32::try_from(queued).expect("few")
}

/// Timers that fire together are dequeued together, and their tasks are woken one by one after that.
#[test]
fn tasks_that_are_woken_together_may_drop_and_reset_each_others_sleeps() {
    const SLEEPS: usize = 100;
    struct Meddler {
        sleeps: Mutex<Vec<Option<Pin<Box<time::Sleep>>>>>,
        woken: [AtomicU32; SLEEPS],
    }
    struct Task(Arc<Meddler>, usize);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            // Relaxed: one thread, which is not helped however long it loses its CPU.
            let Self(meddler, number) = &*self;
            meddler.woken[*number].fetch_add(1, Ordering::Relaxed);
            if number % 3 == 0 {
                let mut sleeps = meddler.sleeps.lock().unwrap();
                if let Some(next) = sleeps.get_mut(number + 1) {
                    *next = None;
                }
                if let Some(Some(later)) = sleeps.get_mut(number + 2) {
                    later.as_mut().reset(time::Instant::now() + ms(5));
                }
            }
        }
    }
    let _patience = support::begin();
    let worker = worker();
    worker.set_helped(false);
    let meddler = Arc::new(Meddler {
        sleeps: Mutex::new((0..SLEEPS).map(|_| None).collect()),
        woken: [const { AtomicU32::new(0) }; SLEEPS],
    });
    for number in 0..SLEEPS {
        let mut sleep = Box::pin(sleep(HOUR));
        let waker = Waker::from(Arc::new(Task(Arc::clone(&meddler), number)));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        meddler.sleeps.lock().unwrap()[number] = Some(sleep);
    }
    let deadline = time::Instant::now() + ms(20);
    for sleep in meddler.sleeps.lock().unwrap().iter_mut().flatten() {
        sleep.as_mut().reset(deadline);
    }
    while time::Instant::now() <= deadline {
        _ = worker.turn();
    }
    support::spin_past(deadline);
    _ = worker.turn();
    thread::sleep(ms(10));
    _ = worker.turn();
    for (number, sleep) in meddler.sleeps.lock().unwrap().iter_mut().enumerate() {
        // Relaxed: one thread.
        let woken = meddler.woken[number].load(Ordering::Relaxed);
        match sleep {
            // It had fired together with the one before it, or not.
            None => assert!(number % 3 == 1 && woken <= 1, "{number}: {woken}"),
            // If it had fired its waker was used up, and it is polled again anyway.
            Some(sleep) if number % 3 == 2 => {
                let is_ready = poll_with(sleep.as_mut(), Waker::noop()).is_ready();
                assert!(woken <= 1 && is_ready, "{number}: {woken}");
            }
            Some(_) => assert_eq!(woken, 1, "{number}"),
        }
    }
}

#[test]
fn a_park_ends_when_the_first_timer_is_due_and_not_before() {
    let _patience = support::begin();
    for parking in [Parking::Sleep, Parking::Spin] {
        let worker = Worker::with_parking(parking).expect("the thread is free");
        worker.set_helped(false);
        for round in 0..50 {
            let deadline = Instant::now() + us(50 + round * 10);
            let mut sleep = pin!(time::sleep_until(deadline.into()));
            // Or not, if something else ran here for the whole time.
            if poll_idly(sleep.as_mut()).is_pending() {
                while !sleep.is_elapsed() {
                    let _any = worker.park();
                }
                assert!(Instant::now() >= deadline);
                assert!(poll_idly(sleep).is_ready());
            }
        }
    }
}

#[test]
fn an_unpark_before_the_park_lets_it_return_at_once() {
    let _patience = support::begin();
    for parking in [Parking::Sleep, Parking::Spin] {
        let worker = Worker::with_parking(parking).expect("the thread is free");
        let unparker = worker.unparker();
        unparker.unpark();
        unparker.clone().unpark();
        assert_eq!(worker.park().fired, 0);
    }
}

#[test]
fn no_unpark_is_lost() {
    let _patience = support::begin();
    let (sender, receiver) = mpsc::channel();
    let turns = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&turns);
    let parked = thread::spawn(move || {
        let worker = worker();
        sender.send(worker.unparker()).expect("the test waits");
        for turn in 1..=10_000 {
            while seen.load(Ordering::Acquire) < turn {
                let _nothing_fires = worker.park();
            }
            seen.store(0, Ordering::Release);
        }
    });
    let unparker = receiver.recv().expect("the worker starts");
    for turn in 1..=10_000_u32 {
        turns.store(turn, Ordering::Release);
        unparker.unpark();
        let looks = if turn % 64 == 0 { 1 } else { 1024 };
        support::spin_until(looks, || turns.load(Ordering::Acquire) == 0);
    }
    parked.join().expect("the worker does not panic");
}

#[test]
fn an_unparker_outlives_its_worker() {
    let unparker = on_thread(|| worker().unparker());
    unparker.unpark();
}

#[test]
fn a_future_is_run_to_its_end_together_with_its_timers() {
    let _patience = support::begin();
    for parking in [Parking::Sleep, Parking::Spin] {
        let worker = Worker::with_parking(parking).expect("the thread is free");
        let not_send = Rc::new(Cell::new(0));
        let start = Instant::now();
        let sum = worker.block_on(async {
            for step in 1..=20 {
                sleep(us(100)).await;
                not_send.set(not_send.get() + step);
            }
            not_send.get()
        });
        assert_eq!(sum, 210);
        assert_passed(start, us(2_000));
        assert_eq!(worker.block_on(async { 5 }), 5);
    }
}

#[test]
fn wake_ups_of_other_threads_reach_a_blocked_worker() {
    let _patience = support::begin();
    let (mut sender, mut receiver) = channel::channel::<u32>(1);
    let (back, answers) = mpsc::channel();
    let other = thread::spawn(move || {
        for number in 0..5_000 {
            block_on(async {
                use futures::sink::SinkExt;
                sender.send(number).await.expect("the worker listens");
            });
            assert_eq!(answers.recv(), Ok(number));
        }
    });
    worker().block_on(async {
        let mut expected = 0;
        while let Some(number) = receiver.next().await {
            assert_eq!(number, expected);
            expected += 1;
            back.send(number).expect("the other thread listens");
        }
        assert_eq!(expected, 5_000);
    });
    other.join().expect("the other thread does not panic");
}

#[test]
fn wake_ups_and_timers_do_not_hide_each_other() {
    let _patience = support::begin();
    worker().block_on(async {
        for round in 0..300_u64 {
            let (sender, receiver) = oneshot::channel();
            let other = thread::spawn(move || {
                thread::sleep(us(round % 97));
                sender.send(()).expect("the worker waits");
            });
            let start = Instant::now();
            let (answer, ()) = join(receiver, sleep(us(60))).await;
            assert_eq!(answer, Ok(()));
            assert_passed(start, us(60));
            other.join().expect("it does not panic");
        }
    });
}

/// A future blocks on another future, on the same worker.
#[test]
fn blocking_inside_of_blocking_loses_no_wake_up() {
    let _patience = support::begin();
    let worker = worker();
    let (outer, waits_outside) = oneshot::channel();
    let (inner, waits_inside) = oneshot::channel();
    let inside = async {
        thread::spawn(move || {
            outer.send(7).expect("the outer future waits");
            thread::sleep(ms(1));
            inner.send(8).expect("the inner future waits");
        });
        worker.block_on(waits_inside)
    };
    let answers = worker.block_on(join(waits_outside, inside));
    assert_eq!(answers, (Ok(7), Ok(8)));
}

#[test]
fn parking_inside_of_blocking_loses_no_wake_up() {
    let _patience = support::begin();
    let worker = worker();
    let (sender, receiver) = oneshot::channel();
    let sender = Cell::new(Some(sender));
    let inner = async {
        let sender = sender.take().expect("once");
        thread::spawn(move || sender.send(7))
            .join()
            .expect("sent")
            .expect("received");
        let _nothing_fires = worker.park();
    };
    let (number, ()) = worker.block_on(join(receiver, inner));
    assert_eq!(number, Ok(7));
}

thread_local! {
    static OWN: Cell<Option<&'static Worker>> = const { Cell::new(None) };
}

/// A callback runs in a turn; a turn within it would wait for itself.
#[test]
fn a_turn_inside_of_a_callback_is_refused() {
    let _patience = support::begin();
    on_thread(|| {
        let own: &'static Worker = Box::leak(Box::new(worker()));
        OWN.set(Some(own));
        let attempts: [fn(&Worker); 3] = [
            |worker| assert_eq!(worker.turn().fired, 0),
            |worker| assert_eq!(worker.park().fired, 0),
            |worker| worker.block_on(sleep(ms(1))),
        ];
        for attempt in attempts {
            let (said, texts) = mpsc::channel();
            let timer = pin!(HrTimer::new(move |_| {
                let worker = OWN.get().expect("the callback runs on the worker");
                let panicked = panic_of(|| attempt(worker));
                said.send(panicked.message).expect("the test listens");
                Restart::No
            }));
            let _ = timer.as_ref().start(Start::after(Span::from_micros(100)));
            while own.park().fired == 0 {}
            let text = texts.recv().expect("the callback ran");
            assert!(text.contains("inside of a callback"), "{text}");
        }
        own.block_on(sleep(ms(1)));
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no event loops on the portable host")]
fn a_thread_is_one_worker_or_driver_at_a_time() {
    let first = worker();
    let second = Worker::new();
    let Err(StartError::AlreadyTaken) = second else {
        panic!("{second:?}");
    };
    let driver = tickless::Driver::new();
    let Err(StartError::AlreadyTaken) = driver else {
        panic!("{driver:?}");
    };
    let text = StartError::AlreadyTaken.to_string();
    assert_eq!(
        text,
        "this thread runs its own timers already; there is one worker or driver for each thread"
    );
    drop(first);
    let third = worker();
    drop(third);
    drop(tickless::Driver::new().expect("the thread is free again"));
    drop(worker());
}

#[test]
fn a_worker_stays_on_its_thread_and_its_unparker_does_not() {
    fn is_shared<T: Send + Sync + Clone + Unpin>() {}
    trait Once<A> {
        fn only() {}
    }
    struct AlsoSend;
    struct AlsoSync;
    impl<T: ?Sized> Once<()> for T {}
    impl<T: ?Sized + Send> Once<AlsoSend> for T {}
    impl<T: ?Sized + Sync> Once<AlsoSync> for T {}
    // Ambiguous if they had one of the two.
    let _ = <Worker as Once<_>>::only;
    let _ = <tickless::Driver as Once<_>>::only;
    is_shared::<tickless::Unparker>();
}

#[test]
#[cfg_attr(portable_host, ignore = "no timer slack on the portable host")]
fn a_worker_is_woken_without_slack() {
    on_thread(|| {
        let _worker = worker();
        let slack = rustix::thread::current_timer_slack().expect("the kernel tells");
        assert_eq!(slack, 1);
    });
}

#[test]
fn timers_of_a_dropped_worker_fire_while_its_thread_lives_on() {
    let _patience = support::begin();
    for parking in [Parking::Sleep, Parking::Spin] {
        let worker = Worker::with_parking(parking).expect("the thread is free");
        let (wakes, waker) = Wakes::new();
        let start = Instant::now();
        let queued = waiting(|| sleep(ms(5)), &waker);
        let (count, timer) = counted();
        let timer = pin!(timer);
        let _ = timer.as_ref().start(Start::after(Span::from_millis(6)));
        drop(worker);
        wakes.wait();
        assert_passed(start, ms(5));
        until(|| count.load(Ordering::Acquire) == 1);
        assert!(poll_idly(pin!(queued)).is_ready());
        // And so do those that come after.
        block_on(sleep(ms(1)));
    }
}

/// The worker's device was armed for a timer that was then cancelled. A later timer of the same thread must be
/// published to the expiry thread again.
#[test]
fn a_timer_that_others_cancelled_does_not_hide_later_ones_from_the_expiry_thread() {
    let _patience = support::begin();
    let worker = worker();
    let cancelled = waiting_idly(|| sleep(ms(3)));
    on_thread(move || drop(cancelled));
    drop(worker);
    block_on(sleep(ms(10)));
}

#[test]
fn timers_queued_before_become_the_workers() {
    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let sleep = waiting(|| sleep(ms(20)), &waker);
    let worker = worker();
    if let Some(next) = worker.next_deadline() {
        assert_eq!(next, sleep.deadline());
        while wakes.count() == 0 {
            let _any = worker.park();
        }
    }
    until(|| wakes.count() == 1);
}

/// The expiry thread is in a callback of a thread that becomes a worker and parks. Meanwhile another timer of the
/// thread is armed, which is due when the expiry thread continues, or later.
fn park_while_the_expiry_thread_is_in_a_callback(second: Duration) {
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let timer = pin!(HrTimer::new(move |_| {
        enter.send(()).expect("the test waits");
        left.recv().expect("the test lets it go on");
        Restart::No
    }));
    let _ = timer.as_ref().start(Start::after(Span::from_micros(100)));
    entered.recv().expect("the callback runs");
    let late = waiting_idly(|| sleep(second));
    let worker = worker();
    let other = thread::spawn(move || {
        // Time to park; without it the test shows nothing, and does not fail either.
        thread::sleep(ms(4));
        leave.send(()).expect("the callback waits");
    });
    while !late.is_elapsed() {
        let _any = worker.park();
    }
    other.join().expect("it does not panic");
}

#[test]
fn a_worker_is_told_of_the_deadline_that_the_expiry_thread_programmed_for_it() {
    let _patience = support::begin();
    park_while_the_expiry_thread_is_in_a_callback(ms(8));
}

#[test]
fn a_worker_is_told_of_what_the_expiry_thread_did_in_its_place() {
    let _patience = support::begin();
    park_while_the_expiry_thread_is_in_a_callback(us(200));
}

/// Starts more soft timers on this thread, all due at once, than a turn fires; the caller has to keep them.
fn soft_crowd() -> (Arc<AtomicU32>, Vec<Pin<Box<dyn Send>>>) {
    let fired = Arc::new(AtomicU32::new(0));
    let start = |_| -> Pin<Box<dyn Send>> {
        let count = Arc::clone(&fired);
        let callback = move |_: &mut Expired<'_, '_, Monotonic>| {
            count.fetch_add(1, Ordering::Relaxed);
            Restart::No
        };
        let timer = Box::pin(HrTimer::with_setup(
            Setup::new().stage(Stage::Soft),
            callback,
        ));
        let _ = timer.as_ref().start(Start::after(Span::ZERO));
        timer
    };
    let crowd = (0..SOFT_CROWD).map(start).collect();
    support::spin_past(time::Instant::now());
    (fired, crowd)
}

const SOFT_CROWD: u32 = 5_000;

/// The soft timers that the budget of a turn leaves have no deadline of their own.
#[test]
fn soft_timers_left_over_are_due_whatever_is_started_meanwhile() {
    let _patience = support::begin();
    let worker = worker();
    let (fired, _crowd) = soft_crowd();
    let turn = worker.turn();
    assert!(turn.more && turn.fired < SOFT_CROWD);
    let far = pin!(HrTimer::new(|_| Restart::No));
    let _ = far.as_ref().start(Start::after(Span::from_secs(3600)));
    while fired.load(Ordering::Relaxed) < SOFT_CROWD {
        let _any = worker.park();
    }
}

#[test]
fn soft_timers_left_over_by_a_worker_fire_when_it_is_gone() {
    let _patience = support::begin();
    let worker = worker();
    let (fired, _crowd) = soft_crowd();
    assert!(worker.turn().more);
    drop(worker);
    until(|| fired.load(Ordering::Relaxed) == SOFT_CROWD);
}

/// Starts timers on a thread that ends. Returns false if they fired before the thread's end, so that no timer moved.
fn ends_with_timers(runs_its_own: bool) -> bool {
    let start = Instant::now();
    let (wakes, waker) = Wakes::new();
    let (count, timer) = counted();
    let timer = Arc::pin(timer);
    let theirs = timer.clone();
    let moved = tickless::stats().moved;
    let sleep = on_thread(move || {
        let worker = runs_its_own.then(worker);
        let sleep = waiting(|| sleep(ms(5)), &waker);
        let _ = theirs.as_ref().start(Start::after(Span::from_millis(6)));
        // The thread ends while it is a worker still.
        std::mem::forget(worker);
        sleep
    });
    let has_moved = tickless::stats().moved > moved;
    wakes.wait();
    assert_passed(start, ms(5));
    until(|| count.load(Ordering::Acquire) == 1);
    assert_passed(start, ms(6));
    assert!(poll_idly(pin!(sleep)).is_ready());
    has_moved
}

#[test]
fn timers_of_a_thread_that_ends_fire() {
    let _patience = support::begin();
    for runs_its_own in [false, true] {
        until(|| ends_with_timers(runs_its_own));
    }
}

/// Destructors of thread-local variables may run after the thread has lost its queue.
#[test]
fn timers_started_at_the_very_end_of_a_thread_fire() {
    struct Last(mpsc::Sender<Pin<Box<time::Sleep>>>, Waker);
    impl Drop for Last {
        fn drop(&mut self) {
            let mut sleep = waiting(|| sleep(ms(4)), &self.1);
            sleep.as_mut().reset(time::Instant::now() + ms(3));
            drop(self.0.send(sleep));
        }
    }
    thread_local! {
        static DROPPED_AFTER_THE_QUEUE: Cell<Option<Last>> = const { Cell::new(None) };
        static DROPPED_BEFORE_THE_QUEUE: Cell<Option<Last>> = const { Cell::new(None) };
    }
    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let (sender, receiver) = mpsc::channel();
    on_thread(move || {
        // The other way round: what was first used last is dropped first.
        DROPPED_AFTER_THE_QUEUE.set(Some(Last(sender.clone(), waker.clone())));
        block_on(sleep(us(50)));
        DROPPED_BEFORE_THE_QUEUE.set(Some(Last(sender, waker)));
    });
    let mut sleeps: Vec<_> = receiver.iter().collect();
    assert_eq!(sleeps.len(), 2);
    until(|| wakes.count() == 2);
    for sleep in &mut sleeps {
        assert!(poll_idly(sleep.as_mut()).is_ready());
    }
}

fn epoll_with(fd: &OwnedFd) -> OwnedFd {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
    epoll::add(
        &epoll,
        fd,
        epoll::EventData::new_u64(7),
        epoll::EventFlags::IN,
    )
    .expect("added");
    epoll
}

#[test]
#[cfg_attr(portable_host, ignore = "no epoll on the portable host")]
fn a_worker_parks_on_an_epoll_instance() {
    let _patience = support::begin();
    let worker = worker();
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let epoll = epoll_with(&event);
    let mut events = EpollEvents::with_capacity(4);

    for round in 1..20 {
        let deadline = Instant::now() + us(200 * round);
        let mut sleep = pin!(time::sleep_until(deadline.into()));
        // Or not, if something else ran here for the whole time.
        while poll_idly(sleep.as_mut()).is_pending() {
            let turn = worker.park_on_epoll(&epoll, &mut events).expect("it waits");
            assert!(events.is_empty() && turn.fired <= 1);
        }
        assert!(Instant::now() >= deadline);
    }

    // Without any timer the wait is endless; an event ends it.
    let theirs = event.try_clone().expect("a second descriptor");
    let other = thread::spawn(move || {
        thread::sleep(ms(2));
        rustix::io::write(&theirs, &1_u64.to_ne_bytes()).expect("written");
    });
    let turn = worker.park_on_epoll(&epoll, &mut events).expect("it waits");
    assert_eq!((events.len(), turn.fired), (1, 0));
    let event = events.iter().next().expect("there is one");
    assert_eq!((event.readiness, event.data), (1, 7));
    other.join().expect("it does not panic");

    // What is due already is not waited for, and does not keep events from being seen.
    let _sleep = waiting_idly(|| sleep(us(50)));
    while !worker.is_due() {}
    let turn = worker.park_on_epoll(&epoll, &mut events).expect("it looks");
    assert_eq!((events.len(), turn.fired), (1, 1));
}

#[test]
#[cfg_attr(portable_host, ignore = "no epoll on the portable host")]
fn an_unpark_ends_the_wait_on_an_epoll_instance() {
    let _patience = support::begin();
    let worker = worker();
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let epoll = epoll_with(&event);
    let mut events = EpollEvents::with_capacity(4);
    let unparker = worker.unparker();
    let woken = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&woken);
    let other = thread::spawn(move || {
        for round in 1..=50 {
            until(|| seen.load(Ordering::Acquire) >= round - 1);
            if round % 2 == 0 {
                thread::sleep(us(300));
            }
            seen.fetch_add(1, Ordering::Release);
            unparker.unpark();
        }
    });
    for round in 1..=50 {
        while woken.load(Ordering::Acquire) < round {
            let turn = worker.park_on_epoll(&epoll, &mut events).expect("it waits");
            assert_eq!((events.len(), turn.fired), (0, 0));
        }
    }
    other.join().expect("it does not panic");
}

/// Waits by a call of the test, as a program with an io_uring does by its own.
#[cfg(not(portable_host))]
#[test]
fn a_worker_parks_in_a_wait_of_its_program() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::time::{ClockId, clock_gettime};

    /// Returns whether the descriptor was readable.
    fn wait(until: Option<Duration>, woken: BorrowedFd<'_>) -> bool {
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).expect("it fits");
        let left = until.map(|until| until.saturating_sub(now));
        let left = left.map(|left| Timespec::try_from(left).expect("it fits"));
        let mut sources = [PollFd::from_borrowed_fd(woken, PollFlags::IN)];
        poll(&mut sources, left.as_ref()).is_ok_and(|ready| ready > 0)
    }

    let _patience = support::begin();
    let worker = worker();
    for round in 1..20 {
        let deadline = Instant::now() + us(200 * round);
        let mut sleep = pin!(time::sleep_until(deadline.into()));
        while poll_idly(sleep.as_mut()).is_pending() {
            let (_, turn) = worker.park_in(wait).expect("it waits");
            assert!(turn.fired <= 1);
        }
        assert!(Instant::now() >= deadline);
    }
    // Without a timer, a wake-up of another thread alone ends the wait, and is taken from the descriptor.
    let unparker = worker.unparker();
    let woken = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&woken);
    let other = thread::spawn(move || {
        for round in 1..=200 {
            until(|| seen.load(Ordering::Acquire) >= round - 1);
            seen.fetch_add(1, Ordering::Release);
            unparker.unpark();
        }
    });
    for round in 1..=200 {
        while woken.load(Ordering::Acquire) < round {
            let _any = worker.park_in(wait).expect("it waits");
        }
    }
    other.join().expect("it does not panic");
    let look = |_, woken: BorrowedFd<'_>| wait(Some(Duration::ZERO), woken);
    while worker.park_in(look).expect("it looks").0 {}
    // A wake-up during a wait that panics is taken, too.
    let unparker = worker.unparker();
    let panics = || {
        worker.park_in(|_, _| {
            unparker.unpark();
            panic!("as the test wants it");
        })
    };
    let panicked: thread::Result<std::io::Result<((), _)>> = catch_unwind(AssertUnwindSafe(panics));
    assert!(panicked.is_err());
    while worker.park_in(look).expect("it looks").0 {}
}

/// A polling worker gets each unpark once, in a process of its own, because another worker that ends may wake it too.
#[test]
fn a_worker_that_polls_hears_of_each_unpark_once() {
    support::in_own_process("a_worker_that_polls_hears_of_each_unpark_once", || {
        let worker = Worker::with_parking(Parking::Spin).expect("the thread is free");
        assert!(!worker.was_unparked());
        worker.unparker().unpark();
        worker.unparker().unpark();
        assert!(worker.was_unparked(), "two at once are one");
        assert!(!worker.was_unparked());
        let unparker = worker.unparker();
        let other = thread::spawn(move || unparker.unpark());
        while !worker.was_unparked() {
            assert!(!worker.is_due(), "it has no timers");
        }
        other.join().expect("it does not panic");
    });
}

#[test]
fn hearing_of_an_unpark_takes_nothing_from_the_future_outside() {
    let _patience = support::begin();
    let worker = worker();
    let polls = Cell::new(0);
    worker.block_on(std::future::poll_fn(|context| {
        polls.set(polls.get() + 1);
        if polls.get() > 1 {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        assert!(worker.was_unparked());
        Poll::Pending
    }));
    assert_eq!(polls.get(), 2);
}

#[test]
fn the_counter_moves_where_its_rate_is_known() {
    let _patience = support::begin();
    let worker = worker();
    while tickless::clock::time_stamp_counter() == Err(tickless::clock::Refusal::Calibrating) {
        assert!(!worker.is_due(), "it has no timers");
    }
    let before = tickless::clock::cycles();
    thread::sleep(ms(1));
    let passed = tickless::clock::cycles().wrapping_sub(before);
    if let Ok(hertz) = tickless::clock::time_stamp_counter() {
        assert!(passed >= hertz / 2_000, "{passed} cycles in a millisecond");
    }
}

#[test]
#[cfg_attr(portable_host, ignore = "no epoll on the portable host")]
fn what_epoll_refuses_is_an_error_and_the_worker_lives() {
    let _patience = support::begin();
    let worker = worker();
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let refused = worker.park_on_epoll(event.as_fd(), &mut EpollEvents::with_capacity(4));
    assert_eq!(
        refused.unwrap_err().raw_os_error(),
        Some(Errno::INVAL.raw_os_error())
    );
    worker.block_on(sleep(us(100)));
}

#[test]
fn a_stranger_that_moves_a_workers_timer_takes_it_along() {
    let _patience = support::begin();
    let worker = worker();
    let (wakes, waker) = Wakes::new();
    let mut sleep = Box::pin(sleep(HOUR));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let unparker = worker.unparker();
    let other = thread::spawn(move || {
        sleep.as_mut().reset(time::Instant::now() + ms(2));
        wakes.wait();
        stopped.store(true, Ordering::Release);
        unparker.unpark();
        assert!(poll_idly(sleep.as_mut()).is_ready());
    });
    while !stop.load(Ordering::Acquire) {
        let _any = worker.park();
    }
    other.join().expect("it does not panic");
}

#[test]
#[cfg_attr(portable_host, ignore = "no pinning on the portable host")]
fn a_worker_is_pinned_or_says_why_not() {
    let worker = worker();
    let allowed = rustix::thread::sched_getaffinity(None).expect("it is known");
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
    let first = u32::try_from(first.expect("there is one")).expect("it is small");
    worker
        .pin(&[first].into_iter().collect())
        .expect("the CPU is ours");
    let now = rustix::thread::sched_getaffinity(None).expect("it is known");
    assert!(now.count() == 1 && now.is_set(first as usize));
    let nothing = tickless::topology::CpuSet::new();
    assert!(matches!(worker.pin(&nothing), Err(ScheduleError::NoCpus)));
    // Beyond what the kernel has, and beyond what a call can say.
    for cpu in [1023, 60_000] {
        let refused = worker.pin(&[cpu].into_iter().collect()).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains(&format!("CPUs {cpu} ")), "{text}");
    }
    let now = rustix::thread::sched_getaffinity(None).expect("it is known");
    assert!(now.count() == 1 && now.is_set(first as usize));
}

#[test]
fn a_worker_has_a_real_time_priority_or_says_why_not() {
    // The field of that number, counted from 1; the second ends with the parenthesis.
    let policy = || {
        let line = std::fs::read_to_string("/proc/thread-self/stat").expect("it is readable");
        let (_, fields) = line.rsplit_once(") ").expect("a name");
        let policy = fields.split(' ').nth(41 - 3).expect("a policy");
        policy.parse::<i32>().expect("a number")
    };
    let worker = worker();
    for priority in [0, 100, u8::MAX] {
        let refused = worker.set_realtime_priority(Some(priority)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("real-time priorities are 1 to 99, and {priority} is none")
        );
    }
    match worker.set_realtime_priority(Some(3)) {
        Ok(()) => {
            assert_eq!(policy(), libc::SCHED_FIFO);
            worker
                .set_realtime_priority(None)
                .expect("less is never refused");
        }
        Err(ScheduleError::Priority { priority, .. }) => assert_eq!(priority, Some(3)),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(policy(), libc::SCHED_OTHER);
    let refused = Workers::builder()
        .workers(1)
        .realtime_priority(100)
        .spawn(|_, _| ())
        .unwrap_err();
    assert!(refused.to_string().contains("1 to 99"), "{refused}");
}
