//! Tests of threads with an event loop that drives their timers by a file descriptor.
#![cfg(not(portable_host))] // The portable host has no event loops.

mod support;

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::retry_on_intr;
use support::{
    Wakes, assert_passed, block_on, is_readable, ms, on_thread, poll_idly, us, wait, waiting,
    waiting_idly,
};
use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart, Setup, Span, Stage, Start};
use tickless::time::{self, sleep};
use tickless::{Driver, Turn, Worker, coarse};

const HOUR: Duration = Duration::from_secs(3600);

fn driver() -> Driver {
    let driver = Driver::new().expect("the thread is free");
    // Timers fire in its turns alone, however long the system keeps the thread from them.
    driver.set_helped(false);
    driver
}

/// Waits and takes turns until a turn fires something. The kernel may find a deadline passed up to the error of the
/// library's clock before a turn does, and the descriptor becomes readable again after the turn.
fn firing_turn(driver: &Driver) -> Turn {
    loop {
        wait(driver);
        let turn = driver.turn();
        if turn.fired > 0 {
            return turn;
        }
        assert!(turn.next.is_some(), "something was waited for");
    }
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
        if poll_idly(sleep.as_mut()).is_ready() {
            // The thread was kept from its CPU for that long.
            assert!(Instant::now() >= deadline);
            continue;
        }
        assert_eq!(driver.next_deadline(), Some(deadline.into()));
        wait(&driver);
        assert!(Instant::now() >= deadline);
        let turn = firing_turn(&driver);
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
        let _sleep = waiting_idly(|| sleep(us(300)));
        let mut fired = 0;
        while fired == 0 {
            // A process that was stopped and goes on is told EINTR.
            let found = retry_on_intr(|| {
                epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)
            });
            assert_eq!(found.expect("it waits"), 1);
            assert_eq!(events[0].data.u64(), 3);
            assert_passed(start, us(300));
            fired = driver.turn().fired;
            events.clear();
        }
        assert_eq!(fired, 1);
    }
    assert!(driver.as_raw_fd() >= 0);
}

#[cfg(feature = "internals")]
#[test]
fn a_turn_at_any_time_does_no_harm() {
    let _patience = support::begin();
    let driver = driver();
    assert_eq!(driver.turn().fired, 0);
    tickless::internals::poke(&driver);
    wait(&driver);
    assert_eq!(driver.turn().fired, 0);
    let late = time::Instant::now() + HOUR;
    let mut sleep = pin!(time::sleep_until(late));
    assert!(poll_idly(sleep.as_mut()).is_pending());
    tickless::internals::poke(&driver);
    wait(&driver);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.next), (0, Some(late)));
    // What was armed before still is.
    let _soon = waiting_idly(|| time::sleep(ms(1)));
    tickless::internals::poke(&driver);
    let mut fired = driver.turn().fired;
    while fired == 0 {
        wait(&driver);
        fired = driver.turn().fired;
    }
    sleep.as_mut().reset(time::Instant::now() + ms(2));
    assert_eq!(firing_turn(&driver).fired, 1);
}

/// The descriptor is programmed for the first timer, whichever thread started the timer and when.
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
        ARMED.set(Some(waiting(|| sleep(ms(2)), &waker)));
        Restart::No
    }));
    let _ = timer.as_ref().start(Start::after(Span::from_micros(200)));
    let mut fired = firing_turn(&driver).fired;
    let armed = ARMED.take().expect("the callback ran on this thread");
    // Where the system took the thread off for so long the same turn fired both.
    if fired == 1 {
        assert_eq!(driver.next_deadline(), Some(armed.deadline()));
        fired += firing_turn(&driver).fired;
    }
    assert_eq!((fired, wakes.count()), (2, 1));
}

#[test]
fn a_timer_that_others_cancel_costs_one_empty_turn_at_most() {
    let _patience = support::begin();
    let driver = driver();
    let cancelled = waiting_idly(|| sleep(ms(2)));
    let kept = waiting_idly(|| sleep(ms(6)));
    on_thread(move || drop(cancelled));
    wait(&driver);
    if driver.turn().fired == 0 {
        assert_eq!(firing_turn(&driver).fired, 1);
    }
    assert!(poll_idly(pin!(kept)).is_ready());
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
    let (mut fired, mut turns) = (0, 0);
    loop {
        let turn = firing_turn(&driver);
        assert!(turn.fired <= 4_096, "{turn:?}");
        (fired, turns) = (fired + turn.fired, turns + 1);
        if !turn.more {
            break;
        }
    }
    assert_eq!(fired, 4_500);
    assert!(turns > 1, "a turn fires 4,096 at most");
    assert!(!is_readable(&driver));
}

/// Soft timers that a turn leaves behind do not make the device fire: the turn itself keeps the descriptor readable.
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
        let _ = timer.as_ref().start(Start::at(at));
    }
    let turn = firing_turn(&driver);
    assert_eq!((turn.fired, turn.more), (4_096, true));
    wait(&driver);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.more), (404, false));
    assert_eq!(fired.load(Ordering::Acquire), 4_500);
    assert!(!is_readable(&driver));
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
    let sleep = waiting(|| sleep(ms(3)), &waker);
    drop(driver);
    wakes.wait();
    assert!(poll_idly(pin!(sleep)).is_ready());
    // Well after the deadline for which it had been armed.
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    let readable = retry_on_intr(|| poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)))
        .expect("poll works");
    assert_eq!(
        readable, 0,
        "an event loop that still watches it would spin"
    );
}

/// Takes turns whenever the descriptor is readable, until `future` is ready.
fn run_until<F: Future + ?Sized>(driver: &Driver, mut future: Pin<&mut F>) {
    while poll_idly(future.as_mut()).is_pending() {
        wait(driver);
        let _turn = driver.turn();
    }
}

/// A thread that requests a turn publishes the request first, and makes the descriptor readable after that. It may do
/// so after the turn that answers the request, and then replaces the deadline that the turn had set.
#[test]
fn a_late_request_for_a_turn_does_not_stand_for_the_deadline() {
    let _patience = support::begin();
    let driver = driver();
    let mut exact = waiting_idly(|| sleep(ms(20)));
    let _turn = driver.turn();
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let at_once = rustix::time::Itimerspec {
        it_interval: zero,
        it_value: Timespec {
            tv_sec: 0,
            tv_nsec: 1,
        },
    };
    let flags = rustix::time::TimerfdTimerFlags::ABSTIME;
    rustix::time::timerfd_settime(driver.as_fd(), flags, &at_once).expect("it is a timer");
    run_until(&driver, exact.as_mut());
}

#[test]
fn the_next_deadline_forgets_what_was_taken_back() {
    let _patience = support::begin();
    let driver = driver();
    let mut near = Box::pin(coarse::sleep(HOUR / 2));
    let mut far = pin!(coarse::sleep(HOUR));
    for sleep in [near.as_mut(), far.as_mut()] {
        assert!(poll_idly(sleep).is_pending());
    }
    let before = driver.next_deadline().expect("two are armed");
    drop(near);
    let after = driver.next_deadline().expect("one is armed");
    assert!(after > before, "{before:?}, {after:?}");
    far.set(coarse::sleep(HOUR));
    assert_eq!(driver.next_deadline(), None);
}

/// The roles of a thread.
enum Role {
    Foreign,
    Worker(Worker),
    Driver(Driver),
}

impl Role {
    fn drawn(draw: u64) -> Self {
        match draw % 3 {
            0 => Self::Foreign,
            1 => Self::Worker(Worker::new().expect("the thread is free")),
            _ => Self::Driver(driver()),
        }
    }

    /// Waits in the way of the thread's role.
    fn wait_for(&self, wait: Pin<&mut dyn Future<Output = ()>>) {
        match self {
            Self::Foreign => block_on(wait),
            Self::Worker(worker) => worker.block_on(wait),
            Self::Driver(driver) => run_until(driver, wait),
        }
    }
}

/// A thread changes its role while exact and coarse timers are pending. Some timers are cancelled; all others fire by
/// the device that the thread has by then.
#[test]
fn threads_that_change_what_they_are_lose_no_timer() {
    let _patience = support::begin();
    let threads: Vec<_> = (1..=4_u64)
        .map(|seed| {
            thread::spawn(move || {
                let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut draw = move |below: u64| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random >> 11) % below
                };
                for _ in 0..60 {
                    change_roles(&mut draw);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("nothing is lost");
    }
}

fn change_roles(draw: &mut impl FnMut(u64) -> u64) {
    let mut pending: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    let mut role = Role::Foreign;
    for _ in 0..2 + draw(4) {
        for _ in 0..draw(3) {
            let after = us(500 + draw(9_000));
            pending.push(if draw(2) == 0 {
                waiting_idly(|| sleep(after))
            } else {
                waiting_idly(|| coarse::sleep(after))
            });
        }
        if !pending.is_empty() && draw(4) == 0 {
            let index = usize::try_from(draw(pending.len() as u64)).expect("it is an index");
            drop(pending.swap_remove(index));
        }
        if !pending.is_empty() && draw(3) == 0 {
            role.wait_for(pending.swap_remove(0).as_mut());
        }
        drop(role);
        role = Role::drawn(draw(3));
    }
    for mut timer in pending {
        role.wait_for(timer.as_mut());
    }
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
        let _ = timer.as_ref().start(Start::after(Span::from_millis(1)));
        while timer.as_ref().is_active() {
            thread::yield_now();
        }
    });
    other.join().expect("it does not panic");
    assert_eq!(fired.load(Ordering::Acquire), 1);
    assert!(!is_readable(&driver));
    assert_eq!(driver.turn().fired, 0);
}
