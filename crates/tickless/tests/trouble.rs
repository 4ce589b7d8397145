//! Tests of trouble in long-running programs: many timers, panics, races, callbacks that never return, signals.

mod support;

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rustix::event::epoll;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use support::{
    Wakes, assert_passed, block_on, ms, on_thread, poll_idly, poll_with, until, us, waiting,
    waiting_idly, worker,
};
use tickless::clock::Refusal;
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::stats;
use tickless::time::{self, Sleep, sleep};
use tickless::wheel::WheelTimer;
use tickless::worker::EpollEvents;
use tickless_conformance::random::Random;

const HOUR: Duration = Duration::from_secs(3600);

/// The number of timers. Without optimisation the same number of timers takes ten times as long.
const CROWD: usize = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};

#[test]
fn a_crowd_of_timers_with_one_deadline_fires() {
    let _patience = support::begin();
    for runs_its_own in [false, true] {
        on_thread(move || {
            let worker = runs_its_own.then(worker);
            let (wakes, waker) = Wakes::new();
            let far = time::Instant::now() + HOUR;
            let mut crowd: Vec<Pin<Box<Sleep>>> = Vec::with_capacity(CROWD);
            for _ in 0..CROWD {
                let mut sleep = Box::pin(time::sleep_until(far));
                assert!(poll_with(sleep.as_mut(), &waker).is_pending());
                crowd.push(sleep);
            }
            let soon = time::Instant::now() + ms(1);
            for sleep in &mut crowd {
                sleep.as_mut().reset(soon);
            }
            let crowd_size = u32::try_from(CROWD).expect("it fits");
            while wakes.count() < crowd_size {
                match &worker {
                    Some(worker) => assert!(worker.park().fired <= 4_096),
                    None => thread::sleep(ms(1)),
                }
            }
            assert!(time::Instant::now() >= soon);
            assert_eq!(wakes.count(), crowd_size);
        });
    }
}

/// A value whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

/// A lock of the tests that count panics: panics are counted over all threads, so these tests run one at a time.
static COUNTING: Mutex<()> = Mutex::new(());

#[test]
fn a_callback_that_panics_stops_its_timer_and_nothing_else() {
    let _patience = support::begin();
    let _alone = COUNTING.lock().expect("no thread panics with it");
    for runs_its_own in [false, true] {
        on_thread(move || {
            let before = stats().panics;
            let worker = runs_its_own.then(worker);
            let panicking = pin!(HrTimer::new(|_| panic!("on purpose")));
            let bomb = pin!(HrTimer::new(|_| std::panic::panic_any(Bomb)));
            let fired = Arc::new(AtomicBool::new(false));
            let fire = Arc::clone(&fired);
            let healthy = pin!(HrTimer::new(move |_| {
                fire.store(true, Ordering::Release);
                Restart::No
            }));
            let _ = panicking
                .as_ref()
                .start(Start::after(Span::from_micros(100)));
            let _ = bomb.as_ref().start(Start::after(Span::from_micros(110)));
            let _ = healthy.as_ref().start(Start::after(Span::from_micros(120)));
            while !fired.load(Ordering::Acquire) {
                match &worker {
                    Some(worker) => assert!(worker.park().fired <= 3),
                    None => thread::sleep(us(100)),
                }
            }
            until(|| stats().panics == before + 2);
            assert!(!panicking.as_ref().is_active() && !bomb.as_ref().is_active());
            // They can be started again.
            let _ = panicking.as_ref().start(Start::after(Span::ZERO));
            while stats().panics == before + 2 {
                match &worker {
                    Some(worker) => assert!(worker.turn().fired <= 1),
                    None => thread::sleep(us(100)),
                }
            }
            match &worker {
                Some(worker) => worker.block_on(sleep(us(200))),
                None => block_on(sleep(us(200))),
            }
        });
    }
}

#[test]
fn a_waker_that_panics_harms_no_other_timer() {
    /// A waker that panics when it wakes, or only when it is dropped.
    struct Panics(Option<Bomb>);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            if self.0.is_none() {
                panic!("on purpose");
            }
        }
    }
    let _patience = support::begin();
    let _alone = COUNTING.lock().expect("no thread panics with it");
    for runs_its_own in [false, true] {
        on_thread(move || {
            let before = stats().panics;
            let worker = runs_its_own.then(worker);
            let (wakes, healthy) = Wakes::new();
            let wakers = [
                Waker::from(Arc::new(Panics(None))),
                Waker::from(Arc::new(Panics(Some(Bomb)))),
                healthy,
            ];
            let mut sleeps = Vec::new();
            for waker in wakers {
                let sleep = waiting(|| sleep(us(300)), &waker);
                // The only one is the sleeper's now.
                drop(waker);
                sleeps.push(sleep);
            }
            while wakes.count() == 0 {
                match &worker {
                    Some(worker) => assert!(worker.park().fired <= 3),
                    None => thread::sleep(us(100)),
                }
            }
            until(|| stats().panics == before + 2);
            for sleep in &mut sleeps {
                assert!(poll_idly(sleep.as_mut()).is_ready());
            }
        });
    }
}

/// A waker's destructor is foreign code, which the thread that drops or changes the waker executes.
#[test]
fn a_waker_that_panics_when_a_sleep_is_dropped_leaves_the_timers_intact() {
    struct Panics(Bomb);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::mem::forget(self);
        }
    }
    let _patience = support::begin();
    let mut changed = Box::pin(sleep(HOUR));
    let waker = Waker::from(Arc::new(Panics(Bomb)));
    assert!(poll_with(changed.as_mut(), &waker).is_pending());
    drop(waker);
    let panicked = support::panic_of(|| assert!(poll_idly(changed.as_mut()).is_pending()));
    assert_eq!(panicked.message, "a bomb");
    assert!(poll_idly(changed.as_mut()).is_pending());

    let mut dropped = Box::pin(sleep(HOUR));
    let waker = Waker::from(Arc::new(Panics(Bomb)));
    assert!(poll_with(dropped.as_mut(), &waker).is_pending());
    drop(waker);
    let mut dropped = Some(dropped);
    let panicked = support::panic_of(|| drop(dropped.take()));
    assert_eq!(panicked.message, "a bomb");
    block_on(sleep(us(200)));
}

/// The thread that waits for the timer is the thread that would fire it.
#[test]
#[cfg_attr(portable_host, ignore = "not noticed on the portable host")]
fn a_callback_that_blocks_on_a_timer_panics_and_the_others_go_on() {
    let _patience = support::begin();
    let _alone = COUNTING.lock().expect("no thread panics with it");
    // A sleep of either kind is noted at its first poll, each on a way of its own.
    for (runs_its_own, is_coarse) in [(false, false), (false, true), (true, false), (true, true)] {
        on_thread(move || {
            let before = stats().panics;
            let worker = runs_its_own.then(worker);
            let blocking = pin!(HrTimer::new(move |_| {
                block_on(async {
                    if is_coarse {
                        tickless::coarse::sleep(ms(1)).await;
                    }
                    sleep(HOUR).await;
                });
                Restart::No
            }));
            let start = Instant::now();
            let _ = blocking.as_ref().start(Start::after(Span::ZERO));
            // After it.
            match &worker {
                Some(worker) => worker.block_on(sleep(ms(2))),
                None => block_on(sleep(ms(2))),
            }
            assert_passed(start, ms(2));
            until(|| stats().panics == before + 1);
            assert!(!blocking.as_ref().is_active());
        });
    }
}

/// An exact sleep takes its fast path while coarse timers run, on a thread that has an earlier timer.
#[test]
#[cfg_attr(portable_host, ignore = "not noticed on the portable host")]
fn a_coarse_callback_that_blocks_on_a_timer_panics() {
    let _patience = support::begin();
    let _alone = COUNTING.lock().expect("no thread panics with it");
    for is_armed_before in [false, true] {
        blocks_in_a_coarse_callback(is_armed_before);
    }
}

fn blocks_in_a_coarse_callback(is_armed_before: bool) {
    on_thread(move || {
        let before = stats().panics;
        let worker = worker();
        let mut earlier = Box::pin(sleep(HOUR / 2));
        assert!(poll_idly(earlier.as_mut()).is_pending());
        let mut later = Box::pin(sleep(HOUR));
        if is_armed_before {
            assert!(poll_idly(later.as_mut()).is_pending());
        }
        let mut later = Some(later);
        let blocking = pin!(WheelTimer::new(move |_| {
            block_on(later.take().expect("it is called once"));
            Restart::No
        }));
        let _ = blocking.as_ref().start(ms(1));
        worker.block_on(async {
            while stats().panics == before {
                sleep(ms(1)).await;
            }
        });
        assert!(!blocking.as_ref().is_active());
    });
}

/// Executors that run tasks inside of a waker poll sleeps in the waker. They do not wait for the sleeps.
#[test]
fn a_callback_may_poll_a_timer_and_take_its_time() {
    let _patience = support::begin();
    let _alone = COUNTING.lock().expect("no thread panics with it");
    let before = stats().panics;
    let (sender, receiver) = mpsc::channel();
    let mut polled = Box::pin(sleep(HOUR));
    let timer = pin!(HrTimer::new(move |_| {
        assert!(poll_idly(polled.as_mut()).is_pending());
        // Longer than it takes to notice one that sleeps.
        let start = Instant::now();
        while start.elapsed() < ms(300) {}
        assert!(poll_idly(polled.as_mut()).is_pending());
        sender.send(()).expect("the test listens");
        Restart::No
    }));
    let _ = timer.as_ref().start(Start::after(Span::ZERO));
    receiver.recv().expect("it does not panic");
    assert_eq!(stats().panics, before);
}

#[test]
fn raw_timers_are_dropped_elsewhere_while_they_fire() {
    let _patience = support::begin();
    for seed in 0..4_u64 {
        on_thread(move || {
            let worker = (seed % 2 == 0).then(worker);
            let (sender, receiver) = mpsc::channel();
            let dropper = thread::spawn(move || {
                let mut random = Random::new(seed);
                for doomed in receiver {
                    let until = Instant::now() + us(random.below(50));
                    while Instant::now() < until {}
                    drop(doomed);
                }
            });
            let mut random = Random::new(seed + 100);
            for _ in 0..1_500 {
                let mut rounds = random.below(4);
                let owned = Box::new([7_u64; 10]);
                let timer = Box::pin(HrTimer::new(move |expired| {
                    assert_eq!(owned.iter().sum::<u64>(), 70, "freed while it runs");
                    expired.forward_now(Span::from_micros(5));
                    rounds = rounds.saturating_sub(1);
                    if rounds > 0 {
                        Restart::Yes
                    } else {
                        Restart::No
                    }
                }));
                let _ = timer
                    .as_ref()
                    .start(Start::after(Span::from_micros(random.below(40))));
                sender.send(timer).expect("the dropper lives");
                if let Some(worker) = &worker {
                    let _any = worker.turn();
                }
            }
            drop(sender);
            while !dropper.is_finished() {
                if let Some(worker) = &worker {
                    let _any = worker.turn();
                }
                thread::yield_now();
            }
            dropper.join().expect("it does not panic");
        });
    }
}

/// Each start ends in one of three ways: the timer fires, or one of two threads cancels it. No start ends in two ways
/// or in none.
fn start_and_cancel_from_two_threads(seed: u64, runs_its_own: bool, strangers_pause: Duration) {
    let fired = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&fired);
    let timer = Arc::pin(HrTimer::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Restart::No
    }));
    let stop = Arc::new(AtomicBool::new(false));
    let (theirs, stopped) = (timer.clone(), Arc::clone(&stop));
    let stranger = thread::spawn(move || {
        let mut cancelled = 0;
        while !stopped.load(Ordering::Acquire) {
            cancelled += u64::from(theirs.as_ref().cancel());
            if !strangers_pause.is_zero() {
                thread::sleep(strangers_pause);
            }
        }
        cancelled
    });
    let worker = runs_its_own.then(worker);
    let mut random = Random::new(seed);
    let starts = if strangers_pause.is_zero() {
        4_000
    } else {
        100_000
    };
    let mut cancelled = 0;
    for _ in 0..starts {
        let _ = timer
            .as_ref()
            .start(Start::after(Span::from_micros(random.below(30))));
        if random.below(4) == 0 {
            for _ in 0..random.below(300) {
                std::hint::spin_loop();
            }
        }
        if let Some(worker) = &worker {
            let _any = worker.turn();
        }
        cancelled += u64::from(timer.as_ref().cancel());
        assert!(!timer.as_ref().is_active());
    }
    stop.store(true, Ordering::Release);
    cancelled += stranger.join().expect("it does not panic");
    assert_eq!(
        fired.load(Ordering::Relaxed) + cancelled,
        starts,
        "seed {seed}"
    );
}

#[test]
fn starts_and_cancels_of_two_threads_are_exact_with_frequent_strangers() {
    let _patience = support::begin();
    for seed in 0..2 {
        start_and_cancel_from_two_threads(seed, seed == 0, Duration::ZERO);
    }
}

/// The owner's lock is biased then, and each stranger ends the bias.
#[test]
fn starts_and_cancels_of_two_threads_are_exact_with_rare_strangers() {
    let _patience = support::begin();
    for seed in 2..4 {
        start_and_cancel_from_two_threads(seed, seed == 2, ms(12));
    }
}

/// A thread that starts a timer moves it to its own queue, while other threads search for the timer.
#[test]
fn a_timer_that_goes_from_hand_to_hand_is_always_found() {
    let _patience = support::begin();
    let fired = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&fired);
    let timer = Arc::pin(HrTimer::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Restart::No
    }));
    let threads: Vec<_> = (0..4_u64)
        .map(|seed| {
            let timer = timer.clone();
            thread::spawn(move || {
                let worker = (seed == 0).then(worker);
                let timer = timer.as_ref();
                let mut random = Random::new(seed);
                for _ in 0..5_000 {
                    let span = Span::from_micros(random.below(100));
                    match random.below(6) {
                        0 => drop(timer.try_cancel()),
                        1 => drop(timer.cancel()),
                        2 => drop(timer.deadline()),
                        3 => drop(timer.start(span.saturating_add(Span::from_secs(9)))),
                        _ => drop(timer.start(span)),
                    }
                    if let Some(worker) = &worker {
                        let _any = worker.turn();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    let timer = timer.as_ref();
    timer.cancel();
    let before = fired.load(Ordering::Relaxed);
    let _ = timer.start(Start::after(Span::from_micros(50)));
    until(|| fired.load(Ordering::Relaxed) == before + 1);
}

#[test]
fn sleeps_are_shared_by_many_threads() {
    let _patience = support::begin();
    let sleeps: Arc<Vec<_>> =
        Arc::new((0..32).map(|_| Mutex::new(Box::pin(sleep(HOUR)))).collect());
    let threads: Vec<_> = (0..6_u64)
        .map(|seed| {
            let sleeps = Arc::clone(&sleeps);
            thread::spawn(move || {
                let worker = (seed % 3 == 0).then(worker);
                let mut random = Random::new(seed);
                let (_, waker) = Wakes::new();
                for _ in 0..3_000 {
                    let place = usize::try_from(random.below(32)).expect("it is small");
                    let mut sleep = sleeps[place].lock().expect("no thread panics with it");
                    let soon = time::Instant::now() + us(random.below(200));
                    match random.below(5) {
                        0 => *sleep = Box::pin(time::sleep(HOUR)),
                        1 => sleep.as_mut().reset(soon),
                        2 => sleep.as_mut().reset(soon + HOUR),
                        _ => {
                            if poll_with(sleep.as_mut(), &waker).is_ready() {
                                assert!(sleep.deadline() <= time::Instant::now());
                            }
                        }
                    }
                    drop(sleep);
                    if let Some(worker) = &worker {
                        let _any = worker.turn();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    // They all still work.
    for sleep in sleeps.iter() {
        let mut sleep = sleep.lock().expect("no thread panics with it");
        let deadline = time::Instant::now() + us(100);
        sleep.as_mut().reset(deadline);
        block_on(sleep.as_mut());
        assert!(time::Instant::now() >= deadline);
    }
}

#[test]
fn threads_come_and_go_by_the_hundred_with_timers_queued() {
    let _patience = support::begin();
    let (sender, receiver) = mpsc::channel();
    let (wakes, waker) = Wakes::new();
    let rounds = 8;
    for round in 0..rounds {
        let threads: Vec<_> = (0..50_u64)
            .map(|number| {
                let (sender, waker) = (sender.clone(), waker.clone());
                thread::spawn(move || {
                    let worker = (number % 5 == 0).then(worker);
                    let mut far = Box::pin(sleep(HOUR));
                    assert!(poll_with(far.as_mut(), &waker).is_pending());
                    let near = waiting(|| sleep(us(200 + number * 50)), &waker);
                    if number % 2 == 0 {
                        block_on(async {
                            if worker.is_none() {
                                sleep(us(50)).await
                            }
                        });
                    }
                    if number % 3 == 0 {
                        std::mem::forget(worker);
                    }
                    sender.send((far, near)).expect("the test collects them");
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        until(|| wakes.count() == 50 * (round + 1));
    }
    let mut kept: Vec<_> = receiver.try_iter().collect();
    assert_eq!(kept.len(), 400);
    for (far, near) in &mut kept {
        assert!(poll_idly(far.as_mut()).is_pending());
        assert!(poll_idly(near.as_mut()).is_ready());
        far.as_mut().reset(time::Instant::now() + us(100));
    }
    block_on(join_all(kept.into_iter().map(|(far, _)| far)));
}

/// The ending thread waits for the callback, and must hold no lock that other threads need meanwhile.
#[test]
fn a_thread_that_ends_during_its_callback_blocks_no_other() {
    let _patience = support::begin();
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let timer = Arc::pin(HrTimer::new(move |_| {
        enter.send(()).expect("the test waits");
        let _gone = left.recv();
        Restart::No
    }));
    let theirs = timer.clone();
    let ending = thread::spawn(move || theirs.as_ref().start(Start::after(Span::ZERO)));
    entered.recv().expect("the callback runs");
    thread::sleep(ms(5));
    for _ in 0..3 {
        on_thread(|| worker().block_on(sleep(us(100))));
    }
    drop(leave);
    let _ = ending.join().expect("it does not panic");
    timer.as_ref().cancel();
}

/// A process that is stopped and continued finds its waits interrupted (`EINTR`, see signal(7)), in all threads and
/// without a signal handler.
#[test]
#[cfg_attr(portable_host, ignore = "no event loops on the portable host")]
fn signals_that_interrupt_a_wait_change_nothing() {
    let _patience = support::begin();
    let Some(mut process) =
        support::process_of_its_own("signals_that_interrupt_a_wait_change_nothing")
    else {
        sleep_in_all_ways();
        support::well_done();
    };
    let mut child = process.spawn().expect("it starts");
    let pid = Pid::from_child(&child);
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            break status;
        }
        kill_process(pid, Signal::STOP).expect("it has not been waited for");
        kill_process(pid, Signal::CONT).expect("it has not been waited for");
        thread::sleep(us(300));
    };
    support::assert_well_done(status);
}

#[test]
#[cfg_attr(portable_host, ignore = "no counter on the portable host")]
fn the_counter_is_refused_for_the_right_reason_where_no_file_can_be_opened() {
    let test = "the_counter_is_refused_for_the_right_reason_where_no_file_can_be_opened";
    support::in_own_process(test, || {
        let limit = getrlimit(Resource::Nofile);
        let current = Some(0);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("it is below the maximum");
        // The first reading of the clock asks for what there is to know.
        block_on(sleep(us(100)));
        let judged = tickless::clock::time_stamp_counter();
        setrlimit(Resource::Nofile, limit).expect("it is the old one");
        // The kernel shows what the processor promises under two names.
        let described = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = described.lines().find(|line| line.starts_with("flags"));
        let is_promised = ["constant_tsc", "nonstop_tsc"]
            .iter()
            .all(|name| flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == *name)));
        // An emulator of another processor may show the file of the machine below it.
        // AArch64 has the promise in its architecture.
        if cfg!(target_arch = "aarch64") || cfg!(target_arch = "x86_64") && is_promised {
            assert_eq!(judged, Err(Refusal::KernelDoesNotTell));
        } else {
            assert!(
                matches!(judged, Err(Refusal::NoCounter | Refusal::NotInvariant)),
                "{judged:?}"
            );
        }
    });
}

fn sleep_in_all_ways() {
    let worker = worker();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
    let mut events = EpollEvents::with_capacity(1);
    for round in 0..20 {
        let start = Instant::now();
        worker.block_on(sleep(ms(2)));
        assert_passed(start, ms(2));
        let start = Instant::now();
        let mut sleep = waiting_idly(|| sleep(ms(2)));
        while poll_idly(sleep.as_mut()).is_pending() {
            if round % 2 == 0 {
                let _any = worker.park();
            } else {
                let _any = worker.park_on_epoll(&epoll, &mut events).expect("no error");
                assert!(events.is_empty());
            }
        }
        assert_passed(start, ms(2));
        // And through the expiry thread.
        on_thread(move || {
            let start = Instant::now();
            block_on(time::sleep(ms(1)));
            assert_passed(start, ms(1));
        });
    }
}
