//! Tests of a process that ends by `exit` in foreign code that the library calls, while an exit handler uses timers.
//!
//! Each test has a process of its own, whose exit code says that the handler has finished.
#![expect(unsafe_code, reason = "the test calls the system")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};

use support::{assert_passed, block_on, in_own_process, ms, poll_idly, us, waiting, worker};
use tickless::executor::JoinHandle;
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::task;
use tickless::time::{self, sleep};
use tickless::wheel::WheelTimer;
use tickless::{Executor, Worker, coarse};

const HOUR: Duration = Duration::from_secs(3600);

/// Ends the process by `exit` in a call of foreign code that `start` begins, while an exit handler sleeps.
fn exits_in(test: &str, start: impl FnOnce()) {
    in_own_process(test, || {
        register_handler();
        start();
        loop {
            thread::park();
        }
    });
}

/// Registers an exit handler that sleeps.
fn register_handler() {
    extern "C" fn sleep_at_exit() {
        let start = Instant::now();
        block_on(sleep(ms(300)));
        block_on(coarse::sleep(ms(20)));
        assert!(block_on(time::timeout(ms(20), std::future::pending::<()>())).is_err());
        assert_passed(start, ms(340));
        if let Some(executor) = EXECUTOR.get() {
            executor.block_on(sleep(ms(20)));
            assert_passed(start, ms(360));
            spawn_at_exit(executor);
        }
    }
    // SAFETY: the function has the C calling convention. A panic in it ends the process, which fails the test.
    assert_eq!(unsafe { libc::atexit(sleep_at_exit) }, 0);
}

static EXECUTOR: OnceLock<Executor> = OnceLock::new();

/// True if the executor's only worker is the thread that exits.
static NONE_IS_LEFT: AtomicBool = AtomicBool::new(false);

/// A task that the handler waits for first.
static WAITS: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Spawns tasks in each way: all tasks run if a worker is left, and are cancelled if no worker is left.
fn spawn_at_exit(executor: &Executor) {
    let waits = WAITS.lock().expect("no panic").take();
    if let Some(waits) = waits {
        executor.block_on(waits).expect("it is stolen");
    }
    let is_left = !NONE_IS_LEFT.load(Ordering::Relaxed);
    let work = || async {
        sleep(ms(1)).await;
        7
    };
    let handles: Vec<_> = (0..20).map(|_| executor.spawn(work())).collect();
    for handle in handles {
        let result = executor.block_on(handle);
        assert_eq!(result.is_ok(), is_left, "{result:?}");
        assert!(result.is_ok_and(|value| value == 7) || !is_left);
    }
    assert_eq!(
        executor.block_on(executor.spawn_blocking(|| 8)).ok(),
        Some(8)
    );
}

/// Returns an executor with `workers` workers that lives as long as the process.
fn executor_of(workers: usize) -> &'static Executor {
    EXECUTOR.get_or_init(|| {
        let executor = Executor::builder().workers(workers).build();
        executor.expect("it starts")
    })
}

/// Returns an executor with two workers that lives as long as the process.
fn executor() -> &'static Executor {
    executor_of(2)
}

/// Starts a timer; its callback ends the process by `exit`.
fn start_exiting(exit: fn() -> !) {
    let timer = Box::pin(HrTimer::new(move |_| -> Restart { exit() }));
    let _ = timer.as_ref().start(Start::after(Span::from_micros(100)));
    std::mem::forget(timer);
}

/// Ends the process in a callback of a worker.
///
/// A worker that gets no CPU for long takes no turns, and the expiry thread calls the callback. Then the handler waits
/// for ever for tasks of that worker, which is a known limit (`host::blocked`). So the process ends without the
/// handler.
fn exit_of_worker() -> ! {
    if thread::current().name() == Some("tickless-expiry") {
        support::skip(
            "an exit in a callback of a worker",
            "the worker got no CPU in time",
        );
        support::well_done_at_once();
    }
    support::well_done()
}

#[test]
fn an_exit_handler_sleeps_where_a_callback_exits() {
    let test = "an_exit_handler_sleeps_where_a_callback_exits";
    exits_in(test, || start_exiting(support::well_done));
}

/// The thread would fire its timers itself, between two polls of this future.
#[test]
fn an_exit_handler_sleeps_where_a_future_of_a_worker_exits() {
    let test = "an_exit_handler_sleeps_where_a_future_of_a_worker_exits";
    exits_in(test, || {
        let worker = Worker::new().expect("the thread is free");
        worker.block_on(async {
            sleep(ms(1)).await;
            support::well_done()
        });
    });
}

/// No runtime moves the paused clock of the thread any more.
#[test]
fn an_exit_handler_sleeps_where_the_clock_is_paused() {
    let test = "an_exit_handler_sleeps_where_the_clock_is_paused";
    exits_in(test, || {
        let worker = Worker::new().expect("the thread is free");
        worker.block_on(async {
            time::pause();
            sleep(HOUR).await;
            support::well_done();
        });
    });
}

/// A handler that is registered later is called earlier.
#[test]
#[cfg_attr(
    target_env = "musl",
    ignore = "`exit` of musl calls no destructors of thread-locals, and so gives no sign to that handler"
)]
fn an_exit_handler_that_is_registered_behind_a_timer_sleeps_where_a_callback_exits() {
    let test = "an_exit_handler_that_is_registered_behind_a_timer_sleeps_where_a_callback_exits";
    exits_in(test, || {
        block_on(sleep(us(100)));
        register_handler();
        start_exiting(support::well_done);
    });
}

#[test]
fn an_exit_handler_blocks_on_an_executor_where_a_callback_exits() {
    let test = "an_exit_handler_blocks_on_an_executor_where_a_callback_exits";
    exits_in(test, || {
        executor();
        start_exiting(support::well_done);
    });
}

#[test]
fn an_exit_handler_sleeps_where_a_callback_of_a_worker_of_an_executor_exits() {
    let test = "an_exit_handler_sleeps_where_a_callback_of_a_worker_of_an_executor_exits";
    exits_in(test, || {
        executor()
            .spawn(async { start_exiting(exit_of_worker) })
            .detach();
    });
}

#[test]
fn an_exit_handler_sleeps_where_a_task_exits() {
    let test = "an_exit_handler_sleeps_where_a_task_exits";
    exits_in(test, || {
        executor().spawn(async { support::well_done() }).detach();
    });
}

#[test]
fn an_exit_handler_spawns_in_vain_where_a_task_of_the_only_worker_exits() {
    let test = "an_exit_handler_spawns_in_vain_where_a_task_of_the_only_worker_exits";
    exits_in(test, || {
        NONE_IS_LEFT.store(true, Ordering::Relaxed);
        executor_of(1)
            .spawn(async { support::well_done() })
            .detach();
    });
}

#[test]
fn a_task_that_waits_behind_one_that_exits_runs_on_another_worker() {
    let test = "a_task_that_waits_behind_one_that_exits_runs_on_another_worker";
    exits_in(test, || {
        let exits = async {
            let waits = task::spawn(async { sleep(ms(1)).await });
            *WAITS.lock().expect("no panic") = Some(waits);
            support::well_done()
        };
        executor().spawn(exits).detach();
    });
}

#[test]
fn an_exit_handler_sleeps_where_a_coarse_callback_exits() {
    let test = "an_exit_handler_sleeps_where_a_coarse_callback_exits";
    exits_in(test, || {
        let timer = Box::pin(WheelTimer::new(|_| -> Restart { support::well_done() }));
        let _ = timer.as_ref().start(ms(1));
        std::mem::forget(timer);
    });
}

/// The handler sleeps on a worker, in a turn in which a sleep was polled before.
#[test]
fn an_exit_handler_sleeps_where_a_waker_exits() {
    struct Exits;
    impl Wake for Exits {
        fn wake(self: Arc<Self>) {
            // So that the thread is known to the watcher of blocked callbacks.
            assert!(poll_idly(Box::pin(sleep(HOUR)).as_mut()).is_pending());
            support::well_done();
        }
    }
    let test = "an_exit_handler_sleeps_where_a_waker_exits";
    exits_in(test, || {
        let worker = worker();
        let _exits = waiting(|| sleep(ms(1)), &Arc::new(Exits).into());
        worker.block_on(std::future::pending())
    });
}
