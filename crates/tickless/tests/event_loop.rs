//! Threads whose timers are driven by an event loop that watches a file descriptor.

mod support;

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures::future::join;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use support::{Wakes, assert_passed, block_on, ms, on_thread, panic_of, poll_idly, poll_with};
use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart, Setup, Span, Stage, Start};
use tickless::time::{self, sleep};
use tickless::{Driver, StartError, Worker};

const HOUR: Duration = Duration::from_secs(3600);

fn driver() -> Driver {
    Driver::new().expect("the thread is free")
}

/// Waits by poll(2) until the descriptor is readable.
fn wait(driver: &Driver) {
    let fd = driver.as_fd();
    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("poll works");
    assert_eq!(ready, 1);
}

fn is_readable(driver: &Driver) -> bool {
    let fd = driver.as_fd();
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).expect("poll works") == 1
}

#[test]
fn the_descriptor_is_readable_when_a_timer_is_due_and_not_before() {
    let _patience = support::begin();
    let driver = driver();
    assert_eq!(driver.next_deadline(), None);
    assert!(!is_readable(&driver));
    for round in 0..50 {
        let deadline = Instant::now() + Duration::from_micros(100 + round * 7);
        let mut sleep = pin!(time::sleep_until(deadline.into()));
        assert!(poll_idly(sleep.as_mut()).is_pending());
        assert_eq!(driver.next_deadline(), Some(deadline.into()));
        wait(&driver);
        assert!(Instant::now() >= deadline);
        let turn = driver.turn();
        assert_eq!((turn.fired, turn.next, turn.more), (1, None, false));
        assert!(!is_readable(&driver));
        assert!(poll_idly(sleep).is_ready());
    }
}

#[test]
fn epoll_reports_the_descriptor() {
    let _patience = support::begin();
    let driver = driver();
    let epoll: OwnedFd = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
    let data = epoll::EventData::new_u64(3);
    epoll::add(
        &epoll,
        &driver,
        data,
        epoll::EventFlags::IN | epoll::EventFlags::ET,
    )
    .expect("added");
    let mut events = Vec::with_capacity(4);
    for _ in 0..20 {
        let start = Instant::now();
        let mut sleep = pin!(sleep(Duration::from_micros(300)));
        assert!(poll_idly(sleep.as_mut()).is_pending());
        let found = epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None);
        assert_eq!(found.expect("it waits"), 1);
        assert_eq!(events[0].data.u64(), 3);
        assert_passed(start, Duration::from_micros(300));
        assert_eq!(driver.turn().fired, 1);
        events.clear();
    }
    assert!(driver.as_raw_fd() >= 0);
}

#[test]
fn several_timers_fire_in_the_order_of_their_deadlines() {
    let _patience = support::begin();
    let driver = driver();
    let order = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let timers: Vec<_> = [7_u64, 3, 9, 1, 5]
        .into_iter()
        .map(|number| {
            let order = Arc::clone(&order);
            let timer = Box::pin(HrTimer::new(move |_| {
                order.lock().expect("no callback panics").push(number);
                Restart::No
            }));
            timer
                .as_ref()
                .start(Start::after(Span::from_millis(number)));
            timer
        })
        .collect();
    let mut fired = 0;
    while fired < 5 {
        wait(&driver);
        let turn = driver.turn();
        fired += turn.fired;
        assert_eq!(turn.next.is_none(), fired == 5);
    }
    assert_passed(start, ms(9));
    assert_eq!(*order.lock().expect("no callback panics"), [1, 3, 5, 7, 9]);
    drop(timers);
}

#[test]
fn a_turn_at_any_time_does_no_harm() {
    let _patience = support::begin();
    let driver = driver();
    assert_eq!(driver.turn().fired, 0);
    driver.poke();
    wait(&driver);
    assert_eq!(driver.turn().fired, 0);
    let late = time::Instant::now() + HOUR;
    let mut sleep = pin!(time::sleep_until(late));
    assert!(poll_idly(sleep.as_mut()).is_pending());
    driver.poke();
    wait(&driver);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.next), (0, Some(late)));
    // What was armed before still is.
    let mut soon = pin!(time::sleep(ms(1)));
    assert!(poll_idly(soon.as_mut()).is_pending());
    driver.poke();
    let mut fired = driver.turn().fired;
    while fired == 0 {
        wait(&driver);
        fired = driver.turn().fired;
    }
    sleep.as_mut().reset(time::Instant::now() + ms(2));
    wait(&driver);
    assert_eq!(driver.turn().fired, 1);
}

/// The descriptor belongs to the first timer, whoever armed it and when.
#[test]
fn an_earlier_timer_armed_by_a_callback_is_seen() {
    thread_local! {
        static ARMED: RefCell<Option<Pin<Box<time::Sleep>>>> = const { RefCell::new(None) };
    }
    let _patience = support::begin();
    let driver = driver();
    let (wakes, waker) = Wakes::new();
    let mut late = pin!(sleep(HOUR));
    assert!(poll_idly(late.as_mut()).is_pending());
    let timer = pin!(HrTimer::new(move |_| {
        let mut sleep = Box::pin(sleep(ms(2)));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        ARMED.set(Some(sleep));
        Restart::No
    }));
    timer.as_ref().start(Start::after(Span::from_micros(200)));
    wait(&driver);
    assert_eq!(driver.turn().fired, 1);
    let armed = ARMED.take().expect("the callback ran on this thread");
    assert_eq!(driver.next_deadline(), Some(armed.deadline()));
    wait(&driver);
    assert_eq!((driver.turn().fired, wakes.count()), (1, 1));
}

#[test]
fn a_timer_that_others_cancel_costs_one_empty_turn_at_most() {
    let _patience = support::begin();
    let driver = driver();
    let mut cancelled = Box::pin(sleep(ms(2)));
    assert!(poll_idly(cancelled.as_mut()).is_pending());
    let mut kept = pin!(sleep(ms(6)));
    assert!(poll_idly(kept.as_mut()).is_pending());
    on_thread(move || drop(cancelled));
    wait(&driver);
    if driver.turn().fired == 0 {
        wait(&driver);
        assert_eq!(driver.turn().fired, 1);
    }
    assert!(poll_idly(kept).is_ready());
}

#[test]
fn more_timers_than_a_turn_may_fire_keep_the_descriptor_readable() {
    let _patience = support::begin();
    let driver = driver();
    let deadline = time::Instant::now() + HOUR;
    let mut sleeps: Vec<_> = (0..4_500)
        .map(|_| Box::pin(time::sleep_until(deadline)))
        .collect();
    for sleep in &mut sleeps {
        assert!(poll_idly(sleep.as_mut()).is_pending());
    }
    let now = time::Instant::now();
    for sleep in &mut sleeps {
        sleep.as_mut().reset(now);
    }
    wait(&driver);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.more), (4_096, true));
    wait(&driver);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.more), (404, false));
    assert!(!is_readable(&driver));
}

/// Soft timers that a turn leaves behind are no reason for the device to fire: the turn itself keeps it readable.
#[test]
fn more_soft_timers_than_a_turn_may_fire_keep_the_descriptor_readable() {
    let _patience = support::begin();
    let driver = driver();
    let fired = Arc::new(AtomicU32::new(0));
    let soft = Setup::new().stage(Stage::Soft);
    let timers: Vec<_> = (0..4_500)
        .map(|_| {
            let fired = Arc::clone(&fired);
            Box::pin(HrTimer::with_setup(
                soft,
                move |_: &mut Expired<'_, '_, Monotonic>| {
                    fired.fetch_add(1, Ordering::Release);
                    Restart::No
                },
            ))
        })
        .collect();
    let at = tickless::hrtimer::now();
    for timer in &timers {
        timer.as_ref().start(Start::at(at));
    }
    wait(&driver);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.more), (4_096, true));
    wait(&driver);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.more), (404, false));
    assert_eq!(fired.load(Ordering::Acquire), 4_500);
    assert!(!is_readable(&driver));
}

#[test]
fn timers_queued_before_become_the_drivers() {
    let _patience = support::begin();
    for _ in 0..20 {
        let start = Instant::now();
        let (wakes, waker) = Wakes::new();
        let mut sleep = pin!(sleep(ms(3)));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        let driver = driver();
        // Unless the machine was so slow that the background driver came first.
        if wakes.count() == 0 && driver.next_deadline().is_some() {
            wait(&driver);
            let _fired = driver.turn();
        }
        wakes.wait();
        assert_passed(start, ms(3));
    }
}

#[test]
fn timers_of_a_dropped_driver_fire_and_its_descriptor_is_silent() {
    let _patience = support::begin();
    let driver = driver();
    let fd = driver
        .as_fd()
        .try_clone_to_owned()
        .expect("a second descriptor");
    let (wakes, waker) = Wakes::new();
    let mut sleep = pin!(sleep(ms(3)));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    drop(driver);
    wakes.wait();
    assert!(poll_idly(sleep).is_ready());
    // Well after the deadline for which it had been armed.
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    let readable = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).expect("poll works");
    assert_eq!(
        readable, 0,
        "an event loop that still watches it would spin"
    );
}

#[test]
fn drivers_and_workers_take_turns_on_one_thread() {
    let _patience = support::begin();
    on_thread(|| {
        for _ in 0..5 {
            let driver = driver();
            assert!(matches!(Worker::new(), Err(StartError::AlreadyTaken)));
            assert!(matches!(Driver::new(), Err(StartError::AlreadyTaken)));
            let mut first = pin!(sleep(ms(1)));
            let mut second = pin!(sleep(ms(2)));
            let mut third = pin!(sleep(ms(4)));
            for sleep in [&mut first, &mut second, &mut third] {
                assert!(poll_idly(sleep.as_mut()).is_pending());
            }
            wait(&driver);
            assert!(driver.turn().fired >= 1);
            drop(driver);
            let worker = Worker::new().expect("the thread is free");
            worker.block_on(join(first, second));
            drop(worker);
            block_on(third);
        }
    });
}

#[test]
fn a_turn_inside_of_a_callback_is_refused() {
    thread_local!(static OWN: Cell<Option<&'static Driver>> = const { Cell::new(None) });
    let _patience = support::begin();
    on_thread(|| {
        let own: &'static Driver = Box::leak(Box::new(driver()));
        OWN.set(Some(own));
        let (said, texts) = mpsc::channel();
        let timer = pin!(HrTimer::new(move |_| {
            let driver = OWN.get().expect("the callback runs on this thread");
            let panicked = panic_of(|| assert_eq!(driver.turn().fired, 0));
            said.send(panicked.message).expect("the test listens");
            Restart::No
        }));
        timer.as_ref().start(Start::after(Span::from_micros(100)));
        wait(own);
        assert_eq!(own.turn().fired, 1);
        let text = texts.recv().expect("the callback ran");
        assert!(text.contains("inside of a callback"), "{text}");
    });
}

#[test]
fn a_thread_that_ends_as_a_driver_leaves_its_timers_to_others() {
    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let mut sleep = on_thread(move || {
        let driver = driver();
        let mut sleep = Box::pin(sleep(ms(3)));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        std::mem::forget(driver);
        sleep
    });
    wakes.wait();
    assert!(poll_idly(sleep.as_mut()).is_ready());
}

#[test]
fn other_threads_timers_are_no_business_of_a_driver() {
    let _patience = support::begin();
    let driver = driver();
    let fired = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&fired);
    let other = thread::spawn(move || {
        let timer = pin!(HrTimer::new(move |_: &mut Expired<'_, '_, Monotonic>| {
            theirs.fetch_add(1, Ordering::Release);
            Restart::No
        }));
        timer.as_ref().start(Start::after(Span::from_millis(1)));
        while timer.as_ref().is_active() {
            thread::yield_now();
        }
    });
    other.join().expect("it does not panic");
    assert_eq!(fired.load(Ordering::Acquire), 1);
    assert!(!is_readable(&driver));
    assert_eq!(driver.turn().fired, 0);
}
