//! The process ends by `exit` in foreign code that the library calls, and an exit handler uses timers.
//!
//! Each test has a process of its own, whose exit code says that the handler came to its end.

mod support;

use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};

use support::{assert_passed, block_on, in_own_process, ms, poll_idly, waiting, worker};
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::time::{self, sleep};
use tickless::wheel::WheelTimer;
use tickless::{Executor, coarse};

const HOUR: Duration = Duration::from_secs(3600);

/// Has the process end by `exit` in a call of foreign code that `start` begins, while an exit handler sleeps.
fn exits_in(test: &str, start: impl FnOnce()) {
    extern "C" fn sleep_at_exit() {
        let start = Instant::now();
        block_on(sleep(ms(300)));
        block_on(coarse::sleep(ms(20)));
        assert!(block_on(time::timeout(ms(20), std::future::pending::<()>())).is_err());
        assert_passed(start, ms(340));
        if let Some(executor) = EXECUTOR.get() {
            executor.block_on(sleep(ms(20)));
            assert_passed(start, ms(360));
        }
    }
    in_own_process(test, || {
        // SAFETY: the function has the C calling convention. A panic in it ends the process, which fails the test.
        assert_eq!(unsafe { libc::atexit(sleep_at_exit) }, 0);
        start();
        loop {
            thread::park();
        }
    });
}

static EXECUTOR: OnceLock<Executor> = OnceLock::new();

/// An executor with two workers that lives as long as the process.
fn executor() -> &'static Executor {
    EXECUTOR.get_or_init(|| Executor::builder().workers(2).build().expect("it starts"))
}

/// A timer whose callback ends the process.
fn start_exiting() {
    let timer = Box::pin(HrTimer::new(|_| -> Restart { support::well_done() }));
    let _ = timer.as_ref().start(Start::after(Span::from_micros(100)));
    std::mem::forget(timer);
}

#[test]
fn an_exit_handler_sleeps_where_a_callback_exits() {
    let test = "an_exit_handler_sleeps_where_a_callback_exits";
    exits_in(test, start_exiting);
}

#[test]
fn an_exit_handler_blocks_on_an_executor_where_a_callback_exits() {
    let test = "an_exit_handler_blocks_on_an_executor_where_a_callback_exits";
    exits_in(test, || {
        executor();
        start_exiting();
    });
}

#[test]
fn an_exit_handler_sleeps_where_a_callback_of_a_worker_of_an_executor_exits() {
    let test = "an_exit_handler_sleeps_where_a_callback_of_a_worker_of_an_executor_exits";
    exits_in(test, || {
        executor().spawn(async { start_exiting() }).detach();
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
fn an_exit_handler_sleeps_where_a_coarse_callback_exits() {
    let test = "an_exit_handler_sleeps_where_a_coarse_callback_exits";
    exits_in(test, || {
        let timer = Box::pin(WheelTimer::new(|_| -> Restart { support::well_done() }));
        let _ = timer.as_ref().start(ms(1));
        std::mem::forget(timer);
    });
}

/// On a worker, in a turn in which a sleep was polled before.
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
