//! Tests of events of the whole process: forks and signals.
//!
//! A fork copies one thread, and every lock in its present state, even if another thread holds the lock. So each test
//! has a process of its own in which nothing else runs, and each forked child ends by [`leave`].
#![expect(unsafe_code, reason = "the test calls the system")]
#![cfg(not(portable_host))] // The portable host has no handlers of forks.

mod support;

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::os::unix::thread::JoinHandleExt as _;
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::fork::{fork, fork_here, fork_without_patience, leave};
use support::refuse::refuse;
use support::{
    Wakes, allow_threads, as_mortal, assert_passed, block_on, in_own_process, is_readable,
    limit_threads, ms, on_thread, panic_of, poll_idly, poll_with, until, us, wait, worker,
};
use tickless::hrtimer::{Boottime, Expired, HrTimer, Monotonic, Restart, Setup, Span, Start};
use tickless::time::{self, Sleep, sleep};
use tickless::worker::EpollEvents;
use tickless::{Driver, StartError, Worker, coarse};

const HOUR: Duration = Duration::from_secs(3600);

/// Uses timers in all ways, on a thread without a worker.
fn use_timers() {
    let start = Instant::now();
    block_on(sleep(us(300)));
    assert_passed(start, us(300));
    let expired = block_on(time::timeout(us(200), std::future::pending::<()>()));
    assert!(expired.is_err());
    on_thread(|| block_on(sleep(us(100))));
    on_thread(|| worker().block_on(sleep(us(100))));
    let (sender, receiver) = mpsc::channel();
    let mut rounds = 0;
    let timer = pin!(HrTimer::new(move |expired| {
        expired.forward_now(Span::from_micros(50));
        rounds += 1;
        sender.send(rounds).expect("the test listens");
        if rounds < 3 {
            Restart::Yes
        } else {
            Restart::No
        }
    }));
    let _ = timer.as_ref().start(Start::after(Span::from_micros(50)));
    assert_eq!(receiver.iter().take(3).sum::<i32>(), 6);
}

#[test]
fn a_child_uses_timers_for_the_first_time() {
    in_own_process("a_child_uses_timers_for_the_first_time", || {
        let child = fork(use_timers);
        use_timers();
        child.join();
    });
}

#[test]
fn both_processes_go_on_using_timers() {
    in_own_process("both_processes_go_on_using_timers", || {
        use_timers();
        for _ in 0..5 {
            let child = fork(use_timers);
            use_timers();
            child.join();
        }
        // And the children of children.
        fork(|| {
            use_timers();
            fork(use_timers).join();
            use_timers();
        })
        .join();
    });
}

#[test]
fn timers_of_the_forking_thread_and_of_ended_ones_fire_in_both_processes() {
    in_own_process(
        "timers_of_the_forking_thread_and_of_ended_ones_fire_in_both_processes",
        || {
            let (wakes, waker) = Wakes::new();
            let deadline = time::Instant::now() + ms(1_500);
            let queue = move |waker: std::task::Waker| {
                let mut sleep = Box::pin(time::sleep_until(deadline));
                assert!(poll_with(sleep.as_mut(), &waker).is_pending());
                sleep
            };
            let mut sleeps: Vec<Pin<Box<Sleep>>> = vec![queue(waker.clone())];
            sleeps.push(on_thread(move || queue(waker)));
            let both = |sleeps: &mut Vec<Pin<Box<Sleep>>>| {
                until(|| wakes.count() == 2);
                assert!(time::Instant::now() >= deadline);
                for sleep in sleeps {
                    assert!(poll_idly(sleep.as_mut()).is_ready());
                }
            };
            let child = fork(|| both(&mut sleeps));
            both(&mut sleeps);
            child.join();
        },
    );
}

/// The timers that an ended thread left are on wheels, and the child's expiry thread must find these wheels.
#[test]
fn coarse_timers_of_an_ended_thread_fire_in_both_processes() {
    in_own_process(
        "coarse_timers_of_an_ended_thread_fire_in_both_processes",
        || {
            let (wakes, waker) = Wakes::new();
            let left = on_thread(move || support::waiting(|| coarse::sleep(ms(1_000)), &waker));
            let child = fork(|| until(|| wakes.count() == 1));
            until(|| wakes.count() == 1);
            drop(left);
            child.join();
        },
    );
}

/// The threads do not exist in the child, and other threads use their stacks there.
#[test]
fn timers_of_other_threads_are_not_queued_in_the_child() {
    in_own_process(
        "timers_of_other_threads_are_not_queued_in_the_child",
        || {
            let (wakes, waker) = Wakes::new();
            let (give, taken) = mpsc::channel();
            let (leave, stay) = mpsc::channel::<()>();
            let deadline = time::Instant::now() + ms(1_500);
            let other = thread::spawn(move || {
                let on_the_stack = pin!(HrTimer::new(|_| Restart::No));
                let _ = on_the_stack
                    .as_ref()
                    .start(Start::after(Span::from_millis(20)));
                let mut sleep = Box::pin(time::sleep_until(deadline));
                assert!(poll_with(sleep.as_mut(), &waker).is_pending());
                let timer = Arc::pin(HrTimer::new(|_| Restart::No));
                let _ = timer.as_ref().start(Start::after(Span::from_secs(3600)));
                give.send((sleep, timer)).expect("it is taken");
                let _gone = stay.recv();
            });
            let (mut sleep, timer) = taken.recv().expect("it is given");
            let child = fork(|| {
                let before = wakes.count();
                assert!(!timer.as_ref().is_active());
                assert!(!timer.as_ref().cancel());
                let _ = timer.as_ref().start(Start::after(Span::from_micros(50)));
                until(|| !timer.as_ref().is_active());
                // Takes the memory of the stacks that are not used any more.
                on_thread(use_timers);
                assert!(!sleep.is_elapsed() || time::Instant::now() >= deadline);
                block_on(sleep.as_mut());
                assert!(time::Instant::now() >= deadline);
                assert_eq!(wakes.count(), before);
            });
            until(|| wakes.count() == 1);
            assert!(poll_idly(sleep.as_mut()).is_ready());
            assert!(timer.as_ref().cancel());
            child.join();
            drop(leave);
            other.join().expect("it does not panic");
        },
    );
}

#[test]
fn a_worker_that_forks_is_a_worker_in_both_processes() {
    in_own_process("a_worker_that_forks_is_a_worker_in_both_processes", || {
        let worker = worker();
        let mut queued = support::waiting_idly(|| sleep(ms(20)));
        let both = |queued: Pin<&mut Sleep>| {
            assert!(matches!(Worker::new(), Err(StartError::AlreadyTaken)));
            worker.block_on(queued);
            worker.block_on(sleep(us(200)));
            let unparker = worker.unparker();
            let other = thread::spawn(move || unparker.unpark());
            let _any = worker.park();
            other.join().expect("it does not panic");
            on_thread(use_timers);
        };
        let child = fork(|| both(queued.as_mut()));
        both(queued.as_mut());
        child.join();
    });
}

#[test]
fn a_wake_up_of_one_process_is_not_taken_by_the_other() {
    in_own_process("a_wake_up_of_one_process_is_not_taken_by_the_other", || {
        let worker = worker();
        let both = || {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
            for _ in 0..50 {
                let unparker = worker.unparker();
                let woken = Arc::new(AtomicBool::new(false));
                let wake = Arc::clone(&woken);
                let other = thread::spawn(move || {
                    thread::sleep(us(100));
                    wake.store(true, Ordering::Release);
                    unparker.unpark();
                });
                while !woken.load(Ordering::Acquire) {
                    park_on(&worker, &epoll);
                }
                other.join().expect("it does not panic");
            }
        };
        both();
        let child = fork(both);
        both();
        child.join();
    });
}

fn park_on(worker: &Worker, epoll: impl AsFd) {
    let mut events = EpollEvents::with_capacity(1);
    let _any = worker.park_on_epoll(epoll, &mut events).expect("no error");
    assert!(events.is_empty());
}

#[test]
fn the_descriptors_of_event_loops_are_two_after_a_fork() {
    in_own_process(
        "the_descriptors_of_event_loops_are_two_after_a_fork",
        || {
            let driver = Driver::new().expect("the thread is free");
            // However late a process comes to a turn, no other thread fires in its place.
            driver.set_helped(false);
            let driver = RefCell::new(Some(driver));
            let of = |what: fn(&Driver) -> bool| what(driver.borrow().as_ref().expect("it lives"));
            let mut far = pin!(sleep(HOUR));
            assert!(poll_idly(far.as_mut()).is_pending());
            let mut near = support::waiting_idly(|| sleep(ms(20)));
            let fires = |mut near: Pin<&mut Sleep>| {
                let turn_fires = |driver: &Driver| {
                    wait(driver);
                    driver.turn().fired > 0
                };
                while !of(turn_fires) {}
                assert!(poll_idly(near.as_mut()).is_ready());
            };
            // The child programs, fires and disarms its own.
            fork(|| {
                near.as_mut().reset(time::Instant::now() + us(100));
                fires(near.as_mut());
                // After what is armed in the parent.
                near.as_mut().reset(time::Instant::now() + HOUR);
                drop(driver.take());
                use_timers();
            })
            .join();
            // While the parent's still works, and is silent in between.
            assert!(!near.is_elapsed() || of(is_readable));
            fires(near.as_mut());
            assert_eq!(
                driver.borrow().as_ref().and_then(Driver::next_deadline),
                Some(far.deadline())
            );
            assert!(!of(is_readable));
        },
    );
}

#[test]
fn a_child_takes_the_bases_of_threads_that_it_does_not_have() {
    in_own_process(
        "a_child_takes_the_bases_of_threads_that_it_does_not_have",
        || {
            let (leave, stay) = mpsc::channel::<()>();
            let (ready, is_ready) = mpsc::channel();
            let other = thread::spawn(move || {
                let driver = Driver::new().expect("the thread is free");
                let sleep = support::waiting_idly(|| sleep(ms(20)));
                ready.send(()).expect("the test waits");
                let _gone = stay.recv();
                while !sleep.is_elapsed() {
                    wait(&driver);
                    let _any = driver.turn();
                }
            });
            is_ready.recv().expect("it is");
            block_on(sleep(us(100)));
            fork(|| {
                // More than there were bases, and one of them has the descriptor of the thread above.
                for _ in 0..3 {
                    let threads = [(); 6].map(|()| {
                        thread::spawn(|| {
                            let driver = Driver::new().expect("the thread is free");
                            let sleep = support::waiting_idly(|| sleep(us(200)));
                            while !sleep.is_elapsed() {
                                wait(&driver);
                                let _any = driver.turn();
                            }
                        })
                    });
                    for thread in threads {
                        thread.join().expect("it does not panic");
                    }
                }
            })
            .join();
            drop(leave);
            other.join().expect("it does not panic");
        },
    );
}

/// Another thread is inside of a callback at the fork. In the child no thread finishes it, so it counts as finished.
#[test]
fn a_callback_of_another_thread_counts_as_finished_in_the_child() {
    in_own_process(
        "a_callback_of_another_thread_counts_as_finished_in_the_child",
        || {
            for runs_its_own in [false, true] {
                let (enter, entered) = mpsc::channel();
                let (leave, left) = mpsc::channel::<()>();
                let timer = Arc::pin(HrTimer::new(move |_: &mut Expired<'_, '_, Monotonic>| {
                    enter.send(()).expect("the test waits");
                    let _gone = left.recv();
                    Restart::No
                }));
                let theirs = timer.clone();
                let other = thread::spawn(move || {
                    let worker = runs_its_own.then(worker);
                    let _ = theirs.as_ref().start(Start::after(Span::ZERO));
                    if let Some(worker) = worker {
                        // The expiry thread may still be in a turn for the queue's thread before, and fire it.
                        while theirs.as_ref().is_active() {
                            let _any = worker.park();
                        }
                    }
                });
                entered.recv().expect("the callback runs");
                fork(|| {
                    assert!(!timer.as_ref().cancel(), "it does not wait to fire");
                    assert!(!timer.as_ref().is_active());
                    use_timers();
                })
                .join();
                assert!(timer.as_ref().is_active(), "in the parent it goes on");
                drop(leave);
                assert!(!timer.as_ref().cancel());
                other.join().expect("it does not panic");
            }
        },
    );
}

/// The callback of the forking thread continues in both processes.
#[test]
fn a_callback_forks() {
    in_own_process("a_callback_forks", || {
        for runs_its_own in [false, true] {
            let worker = runs_its_own.then(worker);
            let (sender, receiver) = mpsc::channel();
            let mut rounds = 0;
            let mut forked = None;
            let timer = pin!(HrTimer::new(move |expired| {
                expired.forward_now(Span::from_micros(200));
                rounds += 1;
                if rounds == 1 {
                    forked = Some(fork_here());
                }
                sender.send(()).expect("the test listens");
                if rounds < 3 {
                    return Restart::Yes;
                }
                match forked.take().expect("in the first round") {
                    Some(child) => child.join(),
                    None => leave(0),
                }
                Restart::No
            }));
            let _ = timer.as_ref().start(Start::after(Span::from_micros(200)));
            // In the child of the worker too. That of the expiry thread has the expiry thread only.
            for _ in 0..3 {
                while receiver.try_recv().is_err() {
                    match &worker {
                        Some(worker) => {
                            let _any = worker.park();
                        }
                        None => thread::sleep(us(100)),
                    }
                }
            }
        }
    });
}

#[test]
fn forks_meet_other_threads_in_the_middle_of_everything() {
    in_own_process(
        "forks_meet_other_threads_in_the_middle_of_everything",
        || {
            // Not while another thread uses the library for the first time: see `init`.
            tickless::init().expect("it starts");
            let stop = Arc::new(AtomicBool::new(false));
            let threads = [0, 1, 2].map(|number| {
                let stop = Arc::clone(&stop);
                // Nothing that takes a lock of the standard library, or the child might find it held.
                thread::spawn(move || {
                    let worker = (number == 0).then(worker);
                    let timer = pin!(HrTimer::new(|_| Restart::No));
                    let far = pin!(HrTimer::with_setup(
                        Setup::new(),
                        |_: &mut Expired<'_, '_, Boottime>| Restart::No,
                    ));
                    while !stop.load(Ordering::Acquire) {
                        let _ = timer.as_ref().start(Start::after(Span::from_micros(20)));
                        let _ = far.as_ref().start(Start::after(Span::from_secs(100)));
                        if let Some(worker) = &worker {
                            let _any = worker.turn();
                        }
                        timer.as_ref().cancel();
                    }
                })
            });
            for _ in 0..60 {
                fork(use_timers).join();
            }
            stop.store(true, Ordering::Release);
            for thread in threads {
                thread.join().expect("it does not panic");
            }
        },
    );
}

#[test]
fn a_child_that_panics_fails_the_test() {
    in_own_process("a_child_that_panics_fails_the_test", || {
        let mut child = Some(fork(|| panic!("on purpose")));
        panic_of(|| child.take().expect("one is there").join());
    });
}

#[test]
fn signal_handlers_that_interrupt_a_wait_change_nothing() {
    static SIGNALS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(_: libc::c_int) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }
    let _patience = support::begin();
    // SAFETY: all bytes zero is a valid `sigaction`: no flags (no SA_RESTART among them) and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as libc::sighandler_t;
    // SAFETY: the handler only adds to an atomic, and `action` lives as long as the call.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0);

    let sleeper = thread::spawn(|| {
        let worker = worker();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
        let mut round = 0;
        // However rarely the thread runs that sends them.
        while round < 20 || SIGNALS.load(Ordering::Relaxed) <= 20 {
            let start = Instant::now();
            let mut sleep = support::waiting_idly(|| sleep(ms(2)));
            while poll_idly(sleep.as_mut()).is_pending() {
                match round % 3 {
                    0 => {
                        let _any = worker.park();
                    }
                    1 => park_on(&worker, &epoll),
                    _ => worker.block_on(sleep.as_mut()),
                }
            }
            assert_passed(start, ms(2));
            round += 1;
        }
    });
    while !sleeper.is_finished() {
        // SAFETY: the thread has not been joined, so its handle is valid.
        unsafe { libc::pthread_kill(sleeper.as_pthread_t() as libc::pthread_t, libc::SIGUSR1) };
        thread::sleep(us(300));
    }
    sleeper.join().expect("it does not panic");
    block_on(sleep(us(100)));
}

/// The child of an event loop may open no descriptor, and the number of the old descriptor is beyond its limit.
#[test]
fn a_child_that_may_open_nothing_lives() {
    in_own_process("a_child_that_may_open_nothing_lives", || {
        on_thread(|| {
            let driver = Driver::new().expect("the thread is free");
            let worker_like = thread::spawn(|| {
                let worker = worker();
                let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
                let unparker = worker.unparker();
                unparker.unpark();
                // Makes the descriptor for wake-ups, which the base keeps.
                park_on(&worker, &epoll);
            });
            worker_like.join().expect("it does not panic");
            let mut far = pin!(sleep(HOUR));
            assert!(poll_idly(far.as_mut()).is_pending());
            let limit = getrlimit(Resource::Nofile);
            let current = Some(3);
            setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("it is below");
            let child = fork(|| {
                setrlimit(Resource::Nofile, limit).expect("it is the old one");
                drop(driver);
                drop(worker());
                on_thread(use_timers);
                use_timers();
            });
            setrlimit(Resource::Nofile, limit).expect("it is the old one");
            child.join();
            far.as_mut().reset(time::Instant::now());
        });
    });
}

/// A thread that forks holds the lock of its base, for which another thread may wait that the child does not have.
#[test]
fn a_child_does_not_wait_for_a_thread_that_waited_for_its_parent() {
    in_own_process(
        "a_child_does_not_wait_for_a_thread_that_waited_for_its_parent",
        || {
            let mut far = Box::pin(sleep(HOUR));
            assert!(poll_idly(far.as_mut()).is_pending());
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = Arc::clone(&stop);
            let other = thread::spawn(move || {
                // Asks for the waker, with the base locked to which the sleep belongs.
                while !stopped.load(Ordering::Relaxed) {
                    assert!(poll_idly(far.as_mut()).is_pending());
                }
            });
            for _ in 0..100 {
                fork(|| block_on(sleep(us(50)))).join();
            }
            stop.store(true, Ordering::Relaxed);
            other.join().expect("it does not panic");
        },
    );
}

/// A daemon replaces itself by a child, again and again.
#[test]
fn a_generation_of_forks_costs_little_memory() {
    const GENERATIONS: u32 = 20;
    /// Returns the memory of the process, in KiB.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let words = line.expect("Linux tells").split_whitespace();
        words.flat_map(str::parse).next().expect("a number")
    }
    fn live(generation: u32, first: u64) {
        use_timers();
        if generation < GENERATIONS {
            fork(|| live(generation + 1, first)).join();
            return;
        }
        let each = resident().saturating_sub(first) / u64::from(GENERATIONS);
        assert!(each < 200, "{each} KiB for each generation");
    }
    in_own_process("a_generation_of_forks_costs_little_memory", || {
        // What the first fork needs is needed once.
        use_timers();
        fork(|| {
            use_timers();
            live(0, resident());
        })
        .join();
    });
}

/// Puts the next children into a time namespace whose monotonic clock is later by `ahead` seconds, or earlier if
/// `ahead` is negative. Returns `false` if the process may not do so, or if the clock would be before its beginning.
/// Only the first thread of a process may call this function.
fn change_time_of_children(ahead: i64) -> bool {
    // SAFETY: it takes no pointers, and affects children alone.
    let unshared = unsafe { libc::unshare(libc::CLONE_NEWTIME) } == 0;
    let offset = format!("monotonic {ahead} 0");
    unshared && std::fs::write("/proc/self/timens_offsets", offset).is_ok()
}

/// Runs `body` in a process of its own, on its first thread.
fn as_first_thread(test: &str, body: impl FnOnce()) {
    in_own_process(test, || fork(body).join());
}

/// Checks a child with a shifted clock: queued timers, and timers that the child starts, use the time of the parent's
/// clock.
fn in_another_time(test: &str, ahead: i64) {
    as_first_thread(test, || {
        let before = Instant::now();
        let mut near = pin!(sleep(ms(20)));
        let mut far = pin!(sleep(HOUR));
        assert!(poll_idly(near.as_mut()).is_pending());
        assert!(poll_idly(far.as_mut()).is_pending());
        if !change_time_of_children(ahead) {
            return support::skip(test, "no time namespace can be made");
        }
        let child = fork(|| {
            assert_ne!(before < Instant::now(), ahead < 0, "it is another time");
            block_on(near.as_mut());
            assert!(poll_idly(far.as_mut()).is_pending());
            use_timers();
            // An instant of the standard library is one of the clock of the child.
            let (start, now) = (time::Instant::now(), Instant::now());
            let end = time::Instant::from_std(now + ms(1));
            assert!(end >= start + ms(1) && end <= time::Instant::now() + ms(1));
            block_on(time::sleep_until(end));
            assert_passed(now, ms(1));
            let driver = Driver::new().expect("the thread is free");
            let queued = support::waiting_idly(|| sleep(ms(1)));
            while !queued.is_elapsed() {
                wait(&driver);
                let _turn = driver.turn();
            }
            // Where the clock is still elsewhere: a child of the child.
            drop(driver);
            fork(use_timers).join();
        });
        block_on(near.as_mut());
        child.join();
        use_timers();
    });
}

#[test]
fn a_child_sleeps_whose_clock_is_behind() {
    in_another_time("a_child_sleeps_whose_clock_is_behind", -600);
}

#[test]
fn a_child_sleeps_whose_clock_is_ahead() {
    in_another_time("a_child_sleeps_whose_clock_is_ahead", 36_000);
}

/// The parent only reads the clock before the fork, and starts no timer.
#[test]
fn a_child_whose_clock_is_behind_reads_it_where_its_parent_was() {
    let test = "a_child_whose_clock_is_behind_reads_it_where_its_parent_was";
    as_first_thread(test, || {
        let before = time::Instant::now();
        if !change_time_of_children(-600) {
            return support::skip(test, "no time namespace can be made");
        }
        let child = fork(|| {
            let start = time::Instant::now();
            assert!(start >= before);
            thread::sleep(ms(20));
            assert!(time::Instant::now() >= start + ms(19), "it stands");
            use_timers();
        });
        child.join();
    });
}

/// A thread that has forked before forks again in the destructor of a thread-local value, or in an exit handler.
#[test]
fn a_thread_forks_again_when_its_thread_local_values_are_gone() {
    struct Forks;
    impl Drop for Forks {
        fn drop(&mut self) {
            fork(|| ()).join();
        }
    }
    thread_local! {
        static FORKS: RefCell<Option<Forks>> = const { RefCell::new(None) };
    }
    extern "C" fn fork_at_exit() {
        fork(|| ()).join();
    }
    let test = "a_thread_forks_again_when_its_thread_local_values_are_gone";
    in_own_process(test, || {
        on_thread(|| {
            // Before the library has any: the destructor runs when all of the library's have.
            FORKS.with_borrow_mut(|forks| *forks = Some(Forks));
            use_timers();
            fork(use_timers).join();
        });
        use_timers();
        fork(use_timers).join();
        // SAFETY: the function has the C calling convention, and does not unwind.
        assert_eq!(unsafe { libc::atexit(fork_at_exit) }, 0);
    });
}

/// The child that is to execute another program can start no thread, and needs none.
#[test]
fn a_child_that_may_start_no_thread_executes_another_program() {
    let test = "a_child_that_may_start_no_thread_executes_another_program";
    as_mortal(test, || {
        let mut queued = support::waiting_idly(|| sleep(ms(2_000)));
        let mut command = Command::new("true");
        // SAFETY: the closure does nothing. It has the standard library fork, where it would otherwise spawn.
        unsafe { command.pre_exec(|| Ok(())) };
        // This thread, the expiry thread, and a child: the other threads of this process are the superuser's.
        limit_threads(3);
        let status = command.status();
        let child = fork_without_patience(|| {
            let told = panic_of(|| assert!(poll_idly(queued.as_mut()).is_pending())).message;
            assert!(
                told.contains("cannot start its background thread"),
                "{told}"
            );
            allow_threads();
            block_on(queued.as_mut());
            use_timers();
        });
        allow_threads();
        assert!(status.expect("it forks").success());
        child.join();
        block_on(queued.as_mut());
    });
}

/// A program forbids itself the barrier system call while the locks of its threads are biased.
#[test]
fn timers_outlive_the_barrier_of_the_base_locks() {
    let test = "timers_outlive_the_barrier_of_the_base_locks";
    in_own_process(test, || {
        // Enough for the owner of a lock to enter it without an exchange.
        let use_alone = || {
            let mut sleep = pin!(sleep(HOUR));
            for _ in 0..10_000 {
                sleep.as_mut().reset(time::Instant::now() + HOUR);
                assert!(poll_idly(sleep.as_mut()).is_pending());
            }
        };
        let queued = || {
            let mut sleep = Box::pin(sleep(HOUR));
            assert!(poll_idly(sleep.as_mut()).is_pending());
            sleep
        };
        let (give, taken) = mpsc::channel();
        let (filter, filtered) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            use_alone();
            give.send(queued()).expect("it is taken");
            let _gone = filtered.recv();
            use_alone();
        });
        let theirs = taken.recv().expect("it is given");
        use_alone();
        let mine = queued();
        if !refuse(libc::SYS_membarrier) {
            support::skip(test, "the kernel takes no filter of system calls");
            return;
        }
        drop(theirs);
        on_thread(move || drop(mine));
        drop(filter);
        other.join().expect("it does not panic");
        use_alone();
        use_timers();
        let both = fork(use_timers);
        use_timers();
        both.join();
    });
}

/// Tests of forks with a runtime whose reactor fires the timers of its threads.
#[cfg(feature = "tokio")]
mod reactor {
    use super::*;
    use tickless::inspect::snapshot;
    use tickless::tokio::{AttachError, Builder, attach};

    /// The parent's reactor continues to ring for the parent alone; the child's expiry thread fires the timers that the
    /// forking thread had started.
    #[test]
    fn a_thread_of_an_attached_runtime_forks() {
        in_own_process("reactor::a_thread_of_an_attached_runtime_forks", || {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            let (start, duration) = (Instant::now(), ms(1_500));
            let mut sleep = runtime.block_on(async {
                sleep(us(200)).await;
                let mut sleep = Box::pin(sleep(duration));
                assert!(poll_idly(sleep.as_mut()).is_pending());
                let child = fork(|| {
                    assert!(snapshot().reactors.is_empty());
                    let inherited = attach().expect_err("the reactor is its parent's");
                    assert!(matches!(inherited, AttachError::Forked), "{inherited}");
                    block_on(sleep.as_mut());
                    assert_passed(start, duration);
                    use_timers();
                    on_thread(|| {
                        let own = Builder::new_current_thread().build().expect("a runtime");
                        own.block_on(super::sleep(us(300)));
                        assert_eq!(snapshot().reactors.len(), 1);
                    });
                });
                for _ in 0..10 {
                    super::sleep(us(300)).await;
                }
                child.join();
                Some(sleep)
            });
            let sleep = sleep.as_mut().expect("it is armed");
            runtime.block_on(sleep.as_mut());
            assert_passed(start, duration);
            let [reactor] = &snapshot().reactors[..] else {
                panic!("there is one");
            };
            assert_ne!(reactor.expired, 0);
        });
    }

    /// The callback of the reactor's turn continues in both processes.
    #[test]
    fn a_callback_in_the_turn_of_a_reactor_forks() {
        in_own_process("reactor::a_callback_in_the_turn_of_a_reactor_forks", || {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            let (sender, receiver) = mpsc::channel();
            let own = thread::current().id();
            let mut timer = Box::pin(HrTimer::new(move |_| {
                let forked = fork_here();
                // Where the reactor was late the expiry thread fires, and is all that the child has.
                if forked.is_none() && thread::current().id() != own {
                    leave(0);
                }
                sender.send(forked).expect("the test listens");
                Restart::No
            }));
            runtime.block_on(async {
                // The thread has timers, so the reactor rings for it.
                sleep(us(100)).await;
                let _ = timer.as_mut().as_ref().start(us(200));
                sleep(us(400)).await;
                let child = loop {
                    match receiver.try_recv() {
                        Ok(forked) => break forked,
                        Err(mpsc::TryRecvError::Empty) => sleep(us(100)).await,
                        Err(mpsc::TryRecvError::Disconnected) => unreachable!("the timer has it"),
                    }
                };
                match child {
                    Some(child) => {
                        sleep(us(300)).await;
                        child.join();
                    }
                    None => {
                        let _patience = support::begin();
                        block_on(sleep(us(300)));
                        leave(0);
                    }
                }
            });
        });
    }

    /// Threads of runtimes are in the middle of turns, or attach and end, at the forks of another thread.
    #[test]
    fn forks_meet_runtimes_in_the_middle_of_everything() {
        in_own_process(
            "reactor::forks_meet_runtimes_in_the_middle_of_everything",
            || {
                // Not while another thread uses the library for the first time: see `init`.
                tickless::init().expect("it starts");
                let stop = Arc::new(AtomicBool::new(false));
                let threads = (0..2).map(|_| {
                    let stop = Arc::clone(&stop);
                    thread::spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            let runtime = Builder::new_current_thread().build().expect("a runtime");
                            runtime.block_on(async {
                                for micros in 0..50 {
                                    sleep(us(micros)).await;
                                }
                            });
                        }
                    })
                });
                let threads: Vec<_> = threads.collect();
                for _ in 0..20 {
                    block_on(sleep(us(500)));
                    fork(|| {
                        assert!(snapshot().reactors.is_empty());
                        use_timers();
                    })
                    .join();
                }
                stop.store(true, Ordering::Relaxed);
                for thread in threads {
                    thread.join().expect("no panic");
                }
            },
        );
    }
}
