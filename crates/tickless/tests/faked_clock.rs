//! A program in which another clock replaces the kernel's monotonic clock, as with libfaketime: this file defines the C
//! library's `clock_gettime`. The kernel does not use this clock for its deadlines (laboratory/findings/faketime-absolute-timers.sh).
//!
//! The tests check that sleeps end, and that no sleep is early by the clock that the program reads.
// The portable host has no kernel's clock to disagree with; with 32 bits the library reads the clock by another name.
#![expect(unsafe_code, reason = "the test calls the system")]
#![cfg(all(not(portable_host), target_pointer_width = "64"))]

mod support;

use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Instant;

use rustix::event::epoll::{self, CreateFlags};
use support::{
    assert_passed, assert_well_done, block_on, ms, process_of_its_own, us, well_done, worker,
};
use tickless::hrtimer::{Boottime, Expired, HrTimer, Restart, Setup, Span, Start};
use tickless::time::{sleep, timeout};
use tickless::worker::EpollEvents;
use tickless::{Driver, Executor, coarse, coop};

/// The environment variable with the clock of the process, as `factor` and `offset` in seconds.
const FAKED: &str = "TICKLESS_TEST_FAKED_CLOCK";

/// The time that a process may take, in seconds.
const PATIENCE: u32 = 240;

/// The rate of the clock in percent, and its offset from the kernel's clock in nanoseconds; not set if the clock is the
/// kernel's.
static FAKE: OnceLock<(i64, i64)> = OnceLock::new();

const fn nanos(time: libc::timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Replaces the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller gave memory for the answer, as the kernel requires.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if result == 0
        && clock == libc::CLOCK_MONOTONIC
        && let Some((percent, ahead)) = FAKE.get()
    {
        // SAFETY: as above; the kernel has written it.
        let time = unsafe { &mut *time };
        let shown = nanos(*time) / 100 * percent + ahead;
        time.tv_sec = shown / 1_000_000_000;
        time.tv_nsec = shown % 1_000_000_000;
    }
    if result == 0 { 0 } else { -1 }
}

/// Runs `body` in processes of their own, with clocks that run at other rates, or are ahead.
fn with_faked_clocks(test: &str, body: impl FnOnce()) {
    if process_of_its_own(test).is_none() {
        let said = std::env::var(FAKED).expect("it is given");
        let (percent, ahead) = said.split_once(' ').expect("two numbers");
        let numbers = [percent, ahead].map(|number| number.parse().expect("a number"));
        let [percent, ahead]: [i64; 2] = numbers;
        FAKE.get_or_init(|| (percent, ahead * 1_000_000_000));
        // The standard library's waits with a time limit go by this clock too.
        // SAFETY: it has no preconditions.
        unsafe { libc::alarm(PATIENCE) };
        body();
        well_done();
    }
    for fake in ["100 86400", "100 -60", "200 0", "50 100000", "110 0"] {
        let mut process = process_of_its_own(test).expect("this is the parent");
        assert_well_done(process.env(FAKED, fake).status().expect("it starts"));
    }
}

async fn use_timers() {
    for _ in 0..3 {
        let start = Instant::now();
        sleep(us(300)).await;
        assert_passed(start, us(300));
    }
    let start = Instant::now();
    let expired = timeout(ms(30), std::future::pending::<()>()).await;
    assert!(expired.is_err());
    assert_passed(start, ms(30));
}

#[test]
fn a_thread_sleeps_by_a_faked_clock() {
    with_faked_clocks("a_thread_sleeps_by_a_faked_clock", || {
        block_on(use_timers());
        let start = Instant::now();
        block_on(coarse::sleep(ms(5)));
        assert_passed(start, ms(5));
        let (wakes, _) = support::Wakes::new();
        let note = std::sync::Arc::clone(&wakes);
        let timer = pin!(HrTimer::with_setup(
            Setup::new(),
            move |_: &mut Expired<'_, '_, Boottime>| {
                note.note();
                Restart::No
            }
        ));
        let _ = timer.as_ref().start(Start::after(Span::from_micros(100)));
        wakes.wait();
    });
}

#[test]
fn a_worker_sleeps_by_a_faked_clock() {
    with_faked_clocks("a_worker_sleeps_by_a_faked_clock", || {
        let worker = worker();
        worker.block_on(use_timers());
        let instance = epoll::create(CreateFlags::CLOEXEC).expect("an instance");
        let queued = support::waiting_idly(|| sleep(ms(5)));
        let mut events = EpollEvents::with_capacity(1);
        while !queued.is_elapsed() {
            let _turn = worker
                .park_on_epoll(instance.as_fd(), &mut events)
                .expect("no error");
        }
    });
}

#[test]
fn an_event_loop_has_its_timers_by_a_faked_clock() {
    with_faked_clocks("an_event_loop_has_its_timers_by_a_faked_clock", || {
        let driver = Driver::new().expect("the thread is free");
        let start = Instant::now();
        let queued = support::waiting_idly(|| sleep(ms(20)));
        while !queued.is_elapsed() {
            support::wait(&driver);
            let _turn = driver.turn();
        }
        assert_passed(start, ms(20));
    });
}

#[test]
fn an_executor_runs_by_a_faked_clock() {
    with_faked_clocks("an_executor_runs_by_a_faked_clock", || {
        let builder = Executor::builder().workers(2);
        let executor = builder.build().expect("there is room");
        executor.block_on(async {
            let computes = || async {
                let start = Instant::now();
                while start.elapsed() < ms(20) {
                    coop::checkpoint().await;
                }
            };
            let computing: Vec<_> = (0..3).map(|_| tickless::task::spawn(computes())).collect();
            tickless::task::spawn(use_timers())
                .await
                .expect("it does not panic");
            for task in computing {
                task.await.expect("it does not panic");
            }
        });
    });
}

#[cfg(feature = "tokio")]
#[test]
fn an_attached_runtime_has_its_timers_by_a_faked_clock() {
    let test = "an_attached_runtime_has_its_timers_by_a_faked_clock";
    with_faked_clocks(test, || {
        let runtime = tickless::tokio::Builder::new_multi_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            tokio::spawn(use_timers()).await.expect("it does not panic");
        });
    });
}
