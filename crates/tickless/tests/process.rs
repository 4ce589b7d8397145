//! What happens to the process as a whole: it forks, it gets signals.
//!
//! A fork copies one thread, and every lock in the state in which the others hold it. So each test has a process of its
//! own in which nothing else runs, and what it forks ends by [`leave`].

mod support;

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::os::unix::thread::JoinHandleExt as _;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, waitpid};
use support::{
    Wakes, assert_passed, block_on, in_own_process, ms, on_thread, panic_of, poll_idly, poll_with,
    until, us,
};
use tickless::hrtimer::{Boottime, Expired, HrTimer, Monotonic, Restart, Setup, Span, Start};
use tickless::time::{self, Sleep, sleep};
use tickless::{Driver, StartError, Worker};

const HOUR: Duration = Duration::from_secs(3600);

/// The child of a fork, in its parent.
#[must_use]
struct Child(Pid);

impl Child {
    /// Waits for the end of the child, which has to be that of [`leave`].
    fn join(self) {
        let (_, status) = waitpid(Some(self.0), WaitOptions::empty())
            .expect("it is a child")
            .expect("it ended");
        assert_eq!(status.exit_status(), Some(0), "the child: {status:?}");
    }
}

/// Forks; `None` in the child.
fn fork_here() -> Option<Child> {
    // SAFETY: the child may do what a process with one thread may. What the standard library and the allocator need is
    // in order there: the C library sees to the allocator, and no other thread of these processes holds a lock of the
    // standard library, prints or starts a thread while this one forks.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system has no room for another process");
    Pid::from_raw(pid).map(Child)
}

/// Runs `body` in the child of a fork of this thread. A panic there is a failure here, and so is a hang.
fn fork(body: impl FnOnce()) -> Child {
    if let Some(child) = fork_here() {
        return child;
    }
    let _patience = support::begin();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    leave(i32::from(result.is_err()))
}

/// Ends the child without the destructors and exit handlers, which are the parent's business.
fn leave(status: i32) -> ! {
    // SAFETY: it has no preconditions.
    unsafe { libc::_exit(status) }
}

fn worker() -> Worker {
    Worker::new().expect("the thread is free")
}

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
    timer.as_ref().start(Start::after(Span::from_micros(50)));
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
            let deadline = time::Instant::now() + ms(200);
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

/// The threads are not in the child, and their stacks serve other threads there.
#[test]
fn timers_of_other_threads_are_not_queued_in_the_child() {
    in_own_process(
        "timers_of_other_threads_are_not_queued_in_the_child",
        || {
            let (wakes, waker) = Wakes::new();
            let (give, taken) = mpsc::channel();
            let (leave, stay) = mpsc::channel::<()>();
            let deadline = time::Instant::now() + ms(200);
            let other = thread::spawn(move || {
                let on_the_stack = pin!(HrTimer::new(|_| Restart::No));
                on_the_stack
                    .as_ref()
                    .start(Start::after(Span::from_millis(20)));
                let mut sleep = Box::pin(time::sleep_until(deadline));
                assert!(poll_with(sleep.as_mut(), &waker).is_pending());
                let timer = Arc::pin(HrTimer::new(|_| Restart::No));
                timer.as_ref().start(Start::after(Span::from_secs(3600)));
                give.send((sleep, timer)).expect("it is taken");
                let _gone = stay.recv();
            });
            let (mut sleep, timer) = taken.recv().expect("it is given");
            let child = fork(|| {
                let before = wakes.count();
                assert!(!timer.as_ref().is_active());
                assert!(!timer.as_ref().cancel());
                timer.as_ref().start(Start::after(Span::from_micros(50)));
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
        let mut queued = pin!(sleep(ms(20)));
        assert!(poll_idly(queued.as_mut()).is_pending());
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
    let mut events = [Event {
        flags: EventFlags::empty(),
        data: EventData::new_u64(0),
    }];
    let (ready, _) = worker.park_on_epoll(epoll, &mut events).expect("no error");
    assert_eq!(ready, 0);
}

fn is_readable(driver: &Driver) -> bool {
    let fd = driver.as_fd();
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).expect("poll works") > 0
}

fn wait(driver: &Driver) {
    let fd = driver.as_fd();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("poll works");
}

#[test]
fn the_descriptors_of_event_loops_are_two_after_a_fork() {
    in_own_process(
        "the_descriptors_of_event_loops_are_two_after_a_fork",
        || {
            let driver = RefCell::new(Driver::new().ok());
            let of = |what: fn(&Driver) -> bool| what(driver.borrow().as_ref().expect("it lives"));
            let mut far = pin!(sleep(HOUR));
            assert!(poll_idly(far.as_mut()).is_pending());
            let mut near = pin!(sleep(ms(20)));
            assert!(poll_idly(near.as_mut()).is_pending());
            let fires = |mut near: Pin<&mut Sleep>| {
                while !near.is_elapsed() {
                    of(|driver| {
                        wait(driver);
                        driver.turn().fired > 0
                    });
                }
                assert!(poll_idly(near.as_mut()).is_ready());
            };
            // The child programs, fires and disarms its own.
            fork(|| {
                near.as_mut().reset(time::Instant::now() + us(100));
                fires(near.as_mut());
                // Behind what is armed in the parent.
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
fn a_child_takes_the_seats_of_threads_that_it_does_not_have() {
    in_own_process(
        "a_child_takes_the_seats_of_threads_that_it_does_not_have",
        || {
            let (leave, stay) = mpsc::channel::<()>();
            let (ready, is_ready) = mpsc::channel();
            let other = thread::spawn(move || {
                let driver = Driver::new().expect("the thread is free");
                let mut sleep = pin!(sleep(ms(20)));
                assert!(poll_idly(sleep.as_mut()).is_pending());
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
                // More than there were seats, and one of them has the descriptor of the thread above.
                for _ in 0..3 {
                    let threads = [(); 6].map(|()| {
                        thread::spawn(|| {
                            let driver = Driver::new().expect("the thread is free");
                            let mut sleep = pin!(sleep(us(200)));
                            assert!(poll_idly(sleep.as_mut()).is_pending());
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

/// Another thread is inside of a callback at the fork. In the child nobody finishes it, so it counts as finished.
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
                    theirs.as_ref().start(Start::after(Span::ZERO));
                    if let Some(worker) = worker {
                        while worker.park().fired == 0 {}
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

/// What the forking thread executes goes on in both processes.
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
            timer.as_ref().start(Start::after(Span::from_micros(200)));
            // In the child of the worker too. That of the driver has the driver only.
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
                        timer.as_ref().start(Start::after(Span::from_micros(20)));
                        far.as_ref().start(Start::after(Span::from_secs(100)));
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
        let child = fork(|| panic!("on purpose"));
        panic_of(|| child.join());
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
        for round in 0..20 {
            let start = Instant::now();
            let mut sleep = pin!(sleep(ms(2)));
            assert!(poll_idly(sleep.as_mut()).is_pending());
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
        }
    });
    while !sleeper.is_finished() {
        // SAFETY: the thread has not been joined, so its handle is valid.
        unsafe { libc::pthread_kill(sleeper.as_pthread_t(), libc::SIGUSR1) };
        thread::sleep(us(300));
    }
    sleeper.join().expect("it does not panic");
    assert!(SIGNALS.load(Ordering::Relaxed) > 20);
    block_on(sleep(us(100)));
}
