//! Tests in which a filter refuses one system call of the library before the library is used. An object that needs the
//! call returns an error when it is made, or works without the call. The library neither panics nor hangs.
//!
//! Each pair of a call and a use has a process of its own, and an alarm ends the process if it hangs.
#![expect(unsafe_code, reason = "the test calls the system")]

mod support;

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags};
use rustix::event::{PollFd, PollFlags, poll};
use support::refuse::refuse;
use support::{assert_well_done, block_on, ms, process_of_its_own, skip, us, well_done};
use tickless::executor::io::Async;
use tickless::time::{sleep, timeout};
use tickless::worker::EpollEvents;
use tickless::{Driver, Executor, Worker, coop};

/// The calls that the library makes, itself or through the standard library.
const CALLS: &[(&str, libc::c_long)] = &[
    ("clock_getres", libc::SYS_clock_getres),
    ("clock_gettime", libc::SYS_clock_gettime),
    ("clock_nanosleep", libc::SYS_clock_nanosleep),
    ("epoll_create1", libc::SYS_epoll_create1),
    ("epoll_ctl", libc::SYS_epoll_ctl),
    ("epoll_pwait", libc::SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")] // Newer processors have no such call.
    ("epoll_wait", libc::SYS_epoll_wait),
    ("epoll_pwait2", libc::SYS_epoll_pwait2),
    ("eventfd2", libc::SYS_eventfd2),
    ("fcntl", libc::SYS_fcntl),
    ("futex", libc::SYS_futex),
    ("getcpu", libc::SYS_getcpu),
    ("getrusage", libc::SYS_getrusage),
    ("gettid", libc::SYS_gettid),
    ("ioctl", libc::SYS_ioctl),
    ("membarrier", libc::SYS_membarrier),
    ("openat", libc::SYS_openat),
    ("ppoll", libc::SYS_ppoll),
    ("prctl", libc::SYS_prctl),
    ("pread64", libc::SYS_pread64),
    ("read", libc::SYS_read),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("sched_setscheduler", libc::SYS_sched_setscheduler),
    ("sched_yield", libc::SYS_sched_yield),
    ("timer_create", libc::SYS_timer_create),
    ("timer_delete", libc::SYS_timer_delete),
    ("timer_settime", libc::SYS_timer_settime),
    ("timerfd_create", libc::SYS_timerfd_create),
    ("timerfd_settime", libc::SYS_timerfd_settime),
    ("write", libc::SYS_write),
    // 32-bit processors have calls whose seconds have 64 bits besides, under the same numbers each.
    #[cfg(target_pointer_width = "32")]
    ("clock_gettime64", 403),
    #[cfg(target_pointer_width = "32")]
    ("clock_getres_time64", 406),
    #[cfg(target_pointer_width = "32")]
    ("clock_nanosleep_time64", 407),
    #[cfg(target_pointer_width = "32")]
    ("timer_settime64", 409),
    #[cfg(target_pointer_width = "32")]
    ("timerfd_settime64", 411),
    #[cfg(target_pointer_width = "32")]
    ("ppoll_time64", 414),
    #[cfg(target_pointer_width = "32")]
    ("futex_time64", 422),
];

/// The environment variable with the name of the call that the process has to refuse.
const REFUSED: &str = "TICKLESS_TEST_REFUSED_CALL";
/// The time that a process may take, in seconds.
const PATIENCE: u32 = 240;
/// The exit code of a process in which other code than the library panicked, because that code needs the call.
const NOT_OURS: i32 = 43;
const OURS: i32 = 44;
/// The exit code of a process whose kernel or emulator accepts no filter.
const UNFILTERED: i32 = 45;

/// Runs `body` once for each of the calls except `needed`, which the environment of the library cannot do without.
/// `made` makes the objects that have to exist before the filter is installed.
fn with_each_call_refused<M>(
    test: &str,
    needed: &[&str],
    made: impl FnOnce() -> M,
    body: impl FnOnce(M),
) {
    let Some(_) = process_of_its_own(test) else {
        let name = std::env::var(REFUSED).expect("it is given");
        let (_, call) = CALLS
            .iter()
            .find(|(other, _)| *other == name)
            .expect("it is one");
        alone(*call, made, body);
    };
    let mut failed = Vec::new();
    for (name, _) in CALLS.iter().filter(|(name, _)| !needed.contains(name)) {
        let mut process = process_of_its_own(test).expect("this is the parent");
        let status = process.env(REFUSED, name).status().expect("it starts");
        match status.code() {
            Some(NOT_OURS) => {}
            Some(UNFILTERED) => {
                return skip(
                    "refused calls",
                    "the kernel takes no filter of system calls",
                );
            }
            _ if std::panic::catch_unwind(|| assert_well_done(status)).is_ok() => {}
            _ => failed.push((*name, status.to_string())),
        }
    }
    assert!(failed.is_empty(), "{test}: {failed:?}");
}

fn alone<M>(call: libc::c_long, made: impl FnOnce() -> M, body: impl FnOnce(M)) -> ! {
    // SAFETY: it has no preconditions.
    unsafe { libc::alarm(PATIENCE) };
    std::panic::set_hook(Box::new(|info| {
        let file = info.location().map_or("", |location| location.file());
        let is_ours =
            file.contains("tickless") || file.contains("rustix") || file.contains("tests/");
        let _best_effort = writeln!(std::io::stderr(), "{info}");
        std::process::exit(if is_ours { OURS } else { NOT_OURS });
    }));
    let made = made();
    if !refuse(call) {
        std::process::exit(UNFILTERED);
    }
    body(made);
    well_done();
}

/// Sleeps for `time`, and checks that the sleep takes at least as long.
async fn sleep_for(time: Duration) {
    let start = Instant::now();
    sleep(time).await;
    support::assert_passed(start, time);
}

async fn use_timers() {
    for _ in 0..3 {
        sleep_for(us(300)).await;
    }
    let expired = timeout(ms(1), std::future::pending::<()>()).await;
    assert!(expired.is_err());
}

#[test]
fn a_thread_sleeps_whatever_call_is_refused() {
    let test = "a_thread_sleeps_whatever_call_is_refused";
    with_each_call_refused(test, &[], || (), |()| block_on(use_timers()));
}

#[test]
fn a_plain_thread_blocks_whatever_call_is_refused() {
    let test = "a_plain_thread_blocks_whatever_call_is_refused";
    with_each_call_refused(
        test,
        &[],
        || (),
        |()| {
            for time in [us(0), us(300), ms(2)] {
                let start = Instant::now();
                tickless::time::blocking::sleep(time);
                support::assert_passed(start, time);
            }
        },
    );
}

/// The error says what the system refused, and the worker continues.
#[test]
fn a_worker_says_which_schedule_was_refused() {
    let test = "a_worker_says_which_schedule_was_refused";
    let Some(mut process) = process_of_its_own(test) else {
        if !refuse(libc::SYS_sched_setscheduler) || !refuse(libc::SYS_sched_setaffinity) {
            skip(
                "refused calls",
                "the kernel takes no filter of system calls",
            );
            well_done();
        }
        let worker = Worker::new().expect("the thread is free");
        let refused = worker.set_realtime_priority(Some(7)).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.starts_with("the system refused real-time priority 7: "),
            "{text}"
        );
        assert!(text.contains("RLIMIT_RTPRIO"), "{text}");
        let refused = worker.set_realtime_priority(None).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("take the real-time priority back")
        );
        let refused = worker.pin(&[0].into_iter().collect()).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.starts_with("the system refused CPUs 0 for the thread: "),
            "{text}"
        );
        worker.block_on(use_timers());
        drop(worker);
        let refused = tickless::Workers::builder()
            .workers(1)
            .realtime_priority(7)
            .spawn(|_, _| ())
            .unwrap_err();
        assert!(refused.to_string().contains("real-time priority 7"));
        well_done();
    };
    assert_well_done(process.status().expect("it starts"));
}

#[test]
fn a_worker_sleeps_whatever_call_is_refused() {
    let test = "a_worker_sleeps_whatever_call_is_refused";
    let made = || {
        (
            epoll::create(CreateFlags::CLOEXEC).expect("an instance"),
            (),
        )
    };
    with_each_call_refused(test, &[], made, |(instance, ())| {
        let Ok(worker) = Worker::new() else { return };
        worker.block_on(use_timers());
        let queued = support::waiting_idly(|| sleep(ms(1)));
        let mut events = EpollEvents::with_capacity(1);
        while !queued.is_elapsed() {
            if worker.park_on_epoll(instance.as_fd(), &mut events).is_err() {
                break;
            }
        }
    });
}

#[test]
fn an_event_loop_has_its_timers_whatever_call_is_refused() {
    let test = "an_event_loop_has_its_timers_whatever_call_is_refused";
    with_each_call_refused(
        test,
        &[],
        || (),
        |()| {
            let Ok(driver) = Driver::new() else { return };
            let queued = support::waiting_idly(|| sleep(ms(1)));
            while !queued.is_elapsed() {
                let fd = driver.as_fd();
                if poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).is_err() {
                    // The loop cannot wait.
                    return;
                }
                let _turn = driver.turn();
            }
        },
    );
}

/// Runs tasks that sleep, tasks that compute, and tasks that wait for a descriptor.
fn use_executor(executor: &Executor) {
    executor.block_on(async {
        use_timers().await;
        let sleeping: Vec<_> = (0..4)
            .map(|_| tickless::task::spawn(use_timers()))
            .collect();
        let computing: Vec<_> = (0..3)
            .map(|_| {
                tickless::task::spawn(async {
                    let start = Instant::now();
                    while start.elapsed() < ms(10) {
                        coop::checkpoint().await;
                    }
                })
            })
            .collect();
        for task in sleeping.into_iter().chain(computing) {
            task.await.expect("it does not panic");
        }
        if let Ok((one, two)) = UnixStream::pair()
            && let (Ok(one), Ok(two)) = (Async::new(one), Async::new(two))
        {
            let hears = tickless::task::spawn(async move {
                one.read_with(|mut socket| socket.read(&mut [0; 5])).await
            });
            sleep(ms(2)).await;
            if two.get_ref().write(b"hello").is_err() {
                drop(two);
            }
            let _any = hears.await.expect("it does not panic");
            sleep(ms(2)).await;
        }
    });
}

/// The calls without which the C library ends a process that joins a thread.
const JOINED: &[&str] = &["futex"];

#[test]
fn an_executor_runs_whatever_call_is_refused() {
    let test = "an_executor_runs_whatever_call_is_refused";
    with_each_call_refused(
        test,
        JOINED,
        || (),
        |()| {
            if let Ok(executor) = Executor::builder().workers(2).build() {
                use_executor(&executor);
            }
        },
    );
}

#[cfg(feature = "tokio")]
#[test]
fn an_attached_runtime_has_its_timers_whatever_call_is_refused() {
    let test = "an_attached_runtime_has_its_timers_whatever_call_is_refused";
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
    };
    with_each_call_refused(test, JOINED, runtime, |runtime| {
        runtime.block_on(async {
            if tickless::tokio::attach().is_ok() {
                use_timers().await;
            }
        });
    });
}

/// The runtime is built by both builders. A builder itself reports the call that it needs.
#[cfg(feature = "tokio")]
#[test]
fn a_runtime_is_built_attached_whatever_call_is_refused() {
    let test = "a_runtime_is_built_attached_whatever_call_is_refused";
    with_each_call_refused(
        test,
        JOINED,
        || (),
        |()| {
            let mut builder = tickless::tokio::Builder::new_multi_thread();
            builder.tokio().worker_threads(2).enable_all();
            if let Ok(runtime) = builder.build() {
                let spawned: Vec<_> = (0..4).map(|_| runtime.spawn(use_timers())).collect();
                runtime.block_on(async {
                    use_timers().await;
                    for task in spawned {
                        task.await.expect("it does not panic");
                    }
                });
            }
        },
    );
}
