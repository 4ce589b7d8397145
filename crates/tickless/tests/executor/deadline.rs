//! Tests of tasks with deadlines on an executor: their admission, throttling and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tickless::task::{self, Deadline, Spec};
use tickless::{Executor, coop, time};

fn executor(workers: usize) -> Executor {
    let builder = Executor::builder().workers(workers);
    builder.build().expect("there are threads enough")
}

fn deadline(runtime: Duration, period: Duration) -> Deadline {
    Deadline::periodic(runtime, period).expect("it makes sense")
}

/// Returns a deadline that reserves `part` hundredths of a worker.
fn percent(part: u64) -> Deadline {
    deadline(Duration::from_millis(part), Duration::from_millis(100))
}

#[test]
fn one_that_computes_for_ever_leaves_the_rest_to_the_others() {
    let builder = Executor::builder().workers(1);
    let executor = builder.build().expect("there are threads enough");
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let spec = Spec::new().name("hog").deadline(deadline(
        Duration::from_micros(500),
        Duration::from_millis(2),
    ));
    let hog = executor.try_spawn_with(spec, async move {
        while !seen.load(Ordering::Relaxed) {
            coop::checkpoint().await;
        }
    });
    let hog = hog.expect("there is room");
    // It has the one worker, before all others, and never waits: only a throttle lets another task run.
    let other = executor.spawn(async move {
        for _ in 0..3 {
            coop::yield_now().await;
            time::sleep(Duration::from_micros(100)).await;
        }
        stop.store(true, Ordering::Relaxed);
    });
    executor.block_on(other).expect("it ends");
    executor.block_on(hog).expect("it ends, by a replenishment");
    assert!(executor.stats().throttles > 0);
}

#[test]
fn a_throttled_one_goes_on_in_its_next_period_on_a_worker_that_sleeps() {
    let executor = executor(1);
    let spec = deadline(Duration::from_micros(100), Duration::from_millis(3));
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let hog = executor.spawn_with(spec, async move {
        while !seen.load(Ordering::Relaxed) {
            coop::checkpoint().await;
        }
    });
    // No other task wakes the worker up.
    while executor.stats().throttles < 3 {
        std::thread::yield_now();
    }
    stop.store(true, Ordering::Relaxed);
    executor.block_on(hog).expect("it ends");
}

#[test]
fn more_than_there_is_is_refused_with_the_numbers() {
    let executor = executor(2);
    let waits = |part| executor.try_spawn_with(percent(part), std::future::pending::<()>());
    let [one, two] = [60, 50].map(|part| waits(part).expect("there is room"));
    let refused = waits(50).expect_err("45 % is left on one and 35 % on the other");
    assert_eq!(
        refused.to_string(),
        "50.0 % of the CPU and 50.0 % that are admitted already come to more than 95.0 %"
    );
    // Who does not ask learns it from the handle.
    let late = executor.spawn_with(percent(50), async {});
    let error = executor.block_on(late).expect_err("it is never polled");
    assert_eq!(error.rejected(), Some(refused));
    assert!(!error.is_panic() && !error.is_cancelled());
    assert_eq!(
        error.to_string(),
        format!("no worker has room for the task: {refused}")
    );
    let three = waits(45).expect("that is left");
    two.abort();
    let cancelled = executor.block_on(two).expect_err("it was aborted");
    assert!(cancelled.is_cancelled());
    let four = waits(50).expect("there is room again");
    for task in [one, three, four] {
        task.abort();
        executor.block_on(task).expect_err("it was aborted");
    }
    let builder = Executor::builder().workers(1).deadline_limit(1_000);
    let all = builder.build().expect("there are threads enough");
    let whole = all.try_spawn_with(percent(100), async { 1 });
    let whole = all.block_on(whole.expect("the limit is the whole worker"));
    assert_eq!(whole.expect("it ends"), 1);
}

#[test]
fn an_abort_does_not_wait_for_the_next_period() {
    let executor = executor(1);
    let hour = deadline(Duration::from_micros(10), Duration::from_secs(3_600));
    let hog = executor.spawn_with(hour, async {
        loop {
            coop::checkpoint().await;
        }
    });
    while executor.stats().throttles == 0 {
        std::thread::yield_now();
    }
    hog.abort();
    let ended: Result<(), _> = executor.block_on(hog);
    assert!(ended.expect_err("it was aborted").is_cancelled());
    // Nor does the end of the executor.
    let hog = executor.spawn_with(hour, async {
        loop {
            coop::checkpoint().await;
        }
    });
    while executor.stats().throttles == 1 {
        std::thread::yield_now();
    }
    drop(executor);
    let ended: Result<(), _> = futures::executor::block_on(hog);
    assert!(ended.expect_err("the executor is gone").is_cancelled());
}

#[test]
fn one_that_is_woken_by_others_while_it_has_no_runtime_gets_it_in_the_end() {
    let executor = executor(2);
    let served = Arc::new(AtomicU64::new(0));
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
    let count = Arc::clone(&served);
    let spec = deadline(Duration::from_micros(20), Duration::from_millis(1));
    let server = executor.spawn_with(spec, async move {
        while receiver.recv().await.is_some() {
            let begun = std::time::Instant::now();
            // More than it has.
            while begun.elapsed() < Duration::from_micros(30) {
                std::hint::spin_loop();
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..20 {
        sender.blocking_send(()).expect("it listens");
    }
    drop(sender);
    executor.block_on(server).expect("it ends");
    // Whether it had to wait for its runtime is the system's decision: woken late enough, it is given it at once.
    assert_eq!(served.load(Ordering::Relaxed), 20);
}

#[test]
fn a_local_task_has_its_deadline_on_its_own_worker() {
    let executor = executor(2);
    let spawned = executor.spawn(async {
        let here = std::thread::current().id();
        let of_worker = std::rc::Rc::new(here);
        let local = task::spawn_local_with(percent(10), async move {
            for _ in 0..5 {
                time::sleep(Duration::from_micros(20)).await;
                assert_eq!(std::thread::current().id(), *of_worker);
            }
        });
        local.detach();
        let refused = task::try_spawn_with(percent(96), async {});
        refused.expect_err("no worker has as much").to_string()
    });
    let refused = executor.block_on(spawned).expect("it ends");
    assert_eq!(
        refused,
        "96.0 % of the CPU and 0.0 % that are admitted already come to more than 95.0 %"
    );
    assert_eq!(executor.shutdown(Duration::from_secs(60)), 0);
    assert_eq!(executor.stats().panics, 0);
}

#[test]
fn deadlines_that_make_no_sense_are_errors() {
    for (runtime, deadline, period) in [(0, 1, 1), (2, 1, 3), (1, 3, 2), (1, 1, 0), (1, 1, 3_601)] {
        let [runtime, deadline, period] = [runtime, deadline, period].map(Duration::from_secs);
        let made = Deadline::new(runtime, deadline, period);
        made.expect_err("it makes no sense");
    }
}
