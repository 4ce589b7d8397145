//! Tests in restricted environments like those of containers: no `/proc` and no `/sys`, no barriers and no counters of
//! the kernel, a clock that is days ahead, a processor's counter that may not be read. Timers work in these
//! environments, and no timer is early or lost.
//!
//! Each test has a process of its own in such an environment, or is skipped by name if the environment cannot be made.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the test calls the system")
)]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use support::refuse::refuse;
use support::{
    assert_passed, assert_well_done, block_on, ms, process_of_its_own, skip, us, well_done,
};
use tickless::time::{sleep, timeout};
use tickless::{Executor, Worker, coarse, task};

/// The seconds by which the clock is ahead in another time namespace: more than most machines are up.
const AHEAD: i64 = 1000 * 24 * 3600;

/// Uses each kind of timers, on each kind of threads, and checks that none is early.
fn use_timers() {
    let all = async {
        for time in [us(0), us(300), ms(2)] {
            let start = Instant::now();
            sleep(time).await;
            assert_passed(start, time);
        }
        let start = Instant::now();
        coarse::sleep(ms(3)).await;
        assert_passed(start, ms(3));
        assert!(timeout(ms(1), std::future::pending::<()>()).await.is_err());
    };
    let all = Box::pin(all);
    let mut done = 0;
    block_on(async {
        all.await;
        done += 1;
    });
    assert_eq!(done, 1);
    match Worker::new() {
        Ok(worker) => worker.block_on(async {
            let start = Instant::now();
            sleep(us(500)).await;
            assert_passed(start, us(500));
        }),
        Err(error) => panic!("{error}"),
    }
    let executor = Executor::builder()
        .workers(2)
        .build()
        .expect("threads can be started");
    let sum: u32 = executor.block_on(async {
        let tasks: Vec<_> = (0..20_u32)
            .map(|number| {
                task::spawn(async move {
                    sleep(us(100)).await;
                    number
                })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.expect("it does not panic");
        }
        sum
    });
    assert_eq!(sum, 190);
    let mut shown = String::new();
    tickless::dump(&mut shown).expect("a text takes all");
    assert!(!shown.is_empty());
}

/// Returns the command by which `unshare` with `arguments` runs `process`.
fn in_surroundings(arguments: &[&str], process: &Command) -> Command {
    let mut unshare = Command::new("unshare");
    unshare
        .args(arguments)
        .arg(process.get_program())
        .args(process.get_args());
    for (name, value) in process.get_envs() {
        if let Some(value) = value {
            unshare.env(name, value);
        }
    }
    unshare
}

/// Returns true if `unshare` with `arguments` works on this machine.
fn can_be_made(arguments: &[&str]) -> bool {
    let made = Command::new("unshare").args(arguments).arg("true").output();
    made.is_ok_and(|made| made.status.success())
}

/// Runs `body` in a process of its own, which `unshare` with `arguments` starts.
fn inside(test: &str, arguments: &[&str], body: impl FnOnce()) {
    let Some(process) = process_of_its_own(test) else {
        body();
        well_done();
    };
    if !can_be_made(arguments) {
        return skip(
            test,
            "unshare is not there, or may not make its surroundings",
        );
    }
    let status = in_surroundings(arguments, &process).status();
    assert_well_done(status.expect("it started before"));
}

/// The arguments that hide the files about processes and about the machine, and execute the command that follows.
const HIDE: &[&str] = &[
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec \"$@\"",
    "sh",
];

#[test]
fn timers_work_without_files_of_the_system() {
    inside("timers_work_without_files_of_the_system", HIDE, || {
        assert!(!Path::new("/proc/self").exists() && !Path::new("/sys/devices").exists());
        use_timers();
        #[cfg(all(target_arch = "x86_64", not(portable_host)))]
        {
            use tickless::clock::{Refusal, time_stamp_counter};

            // The kernel may not trust the counter, and does not say so.
            let told = time_stamp_counter().map(drop);
            assert!(
                matches!(
                    told,
                    Err(Refusal::KernelDoesNotTell | Refusal::NoCounter | Refusal::NotInvariant)
                ),
                "{told:?}"
            );
        }
    });
}

#[test]
fn timers_work_in_a_container_that_is_told_nothing() {
    let test = "timers_work_in_a_container_that_is_told_nothing";
    inside(test, HIDE, || {
        let calls = [
            libc::SYS_membarrier,
            libc::SYS_perf_event_open,
            libc::SYS_sched_getaffinity,
            libc::SYS_prctl,
        ];
        // The last one is what filters are made with.
        if !calls.into_iter().all(refuse) {
            return skip(test, "the kernel takes no filter of system calls");
        }
        use_timers();
    });
}

#[test]
fn timers_work_with_a_clock_that_is_days_ahead() {
    let ahead = AHEAD.to_string();
    let arguments = [
        "--time",
        "--monotonic",
        &ahead,
        "--boottime",
        &ahead,
        "--fork",
    ];
    let test = "timers_work_with_a_clock_that_is_days_ahead";
    inside(test, &arguments, || {
        assert!(
            clock_gettime(ClockId::Monotonic).tv_sec >= AHEAD,
            "it is another time"
        );
        use_timers();
    });
}

/// The test is skipped if the kernel's clock uses the counter: the C library's clock then reads the counter too, which
/// ends any program.
#[cfg(target_arch = "x86_64")]
#[test]
fn timers_work_where_the_counter_may_not_be_read() {
    const TIMERS: &str = "TICKLESS_TEST_TIMERS";
    let test = "timers_work_where_the_counter_may_not_be_read";
    let Some(mut plain) = process_of_its_own(test) else {
        // SAFETY: it takes no pointers.
        let forbidden = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
        assert_eq!(forbidden, 0);
        let _clock = Instant::now();
        if std::env::var_os(TIMERS).is_some() {
            use_timers();
        }
        well_done();
    };
    let plain = plain.status().expect("it starts");
    if !plain.success() && plain.code().is_none() {
        return skip(
            test,
            "the C library's clock reads the counter, and ends the process",
        );
    }
    assert_well_done(plain);
    let mut process = process_of_its_own(test).expect("this is the parent");
    assert_well_done(process.env(TIMERS, "1").status().expect("it starts"));
}
