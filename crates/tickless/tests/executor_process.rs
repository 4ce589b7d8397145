//! What an executor shares with the rest of its process: bases that other threads were on, and barriers.

mod support;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::{in_own_process, on_thread};
use tickless::hrtimer::{HrTimer, Restart};
use tickless::internals::{Linux, barriers};
use tickless::{Executor, Worker, coop, time};
use tickless_link::bias::{LockHost, REBIAS_AFTER};

const HOUR: Duration = Duration::from_secs(3600);

/// An executor whose worker is looked after by no coarse timer while the test lasts.
fn executor() -> Executor {
    let builder = Executor::builder().workers(1).stuck_after(HOUR);
    builder.build().expect("there are threads enough")
}

/// A worker starts that many timers, on a base that it leaves.
fn start_timers(count: u64) {
    on_thread(move || {
        let _worker = Worker::new().expect("the thread is free");
        let timer = Box::pin(HrTimer::new(|_| Restart::No));
        for number in 0..count {
            timer
                .as_ref()
                .start(Duration::from_millis(1_000 + number % 2 * 500));
        }
    });
}

#[test]
fn an_executor_counts_the_timers_of_its_own_time() {
    in_own_process("an_executor_counts_the_timers_of_its_own_time", || {
        const MANY: u64 = 10_000;
        start_timers(MANY);
        let executor = executor();
        let slept = executor.spawn(async {
            for _ in 0..10 {
                time::sleep(Duration::from_micros(20)).await;
            }
        });
        executor.block_on(slept).expect("it ends");
        let stats = executor.stats();
        assert!(stats.interrupts > 0, "{stats:?}");
        assert!(stats.timer_starts < MANY, "{stats:?}");
        executor.shutdown(HOUR);
        let stats = executor.stats();
        start_timers(MANY);
        assert_eq!(executor.stats(), stats, "it is over");
    });
}

/// The worker has its queue to itself for long, which makes the lock of the queue biased.
fn work_quietly(executor: &Executor) {
    let task = executor.spawn(async {
        for _ in 0..REBIAS_AFTER + 10 {
            coop::yield_now().await;
        }
    });
    executor.block_on(task).expect("it ends");
}

/// A task is spawned by this thread, under the lock of the queue: how many barriers that took.
fn spawned_by_a_stranger(executor: &Executor) -> u64 {
    let before = barriers();
    executor.spawn(async {}).detach();
    barriers() - before
}

/// Runs `body` while a worker is isolated.
fn beside_an_isolated_worker(body: impl FnOnce()) {
    let _keeper = Worker::new().expect("the thread is free");
    let (isolated, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let quiet = thread::spawn(move || {
        let worker = Worker::new().expect("the thread is free");
        worker.set_isolated(true).expect("the keeper stays");
        isolated.send(()).expect("the test waits for it");
        let _sender_gone = ended.recv();
        worker.set_isolated(false).expect("it is possible always");
    });
    told.recv().expect("it was isolated");
    body();
    drop(end);
    quiet.join().expect("no panic");
}

#[test]
fn strangers_at_a_run_queue_execute_no_barrier_while_a_worker_is_isolated() {
    in_own_process(
        "strangers_at_a_run_queue_execute_no_barrier_while_a_worker_is_isolated",
        || {
            if !Linux::barrier_works() {
                support::skip(
                    "interrupts of isolated CPUs",
                    "the kernel has no membarrier, so that no lock is ever biased",
                );
                return;
            }
            let executor = executor();
            work_quietly(&executor);
            assert_eq!(
                spawned_by_a_stranger(&executor),
                1,
                "what isolation prevents"
            );
            work_quietly(&executor);
            beside_an_isolated_worker(|| {
                assert_eq!(spawned_by_a_stranger(&executor), 0, "it was biased before");
                work_quietly(&executor);
                assert_eq!(spawned_by_a_stranger(&executor), 0, "it may not be again");
                let later = self::executor();
                work_quietly(&later);
                assert_eq!(spawned_by_a_stranger(&later), 0, "nor may another one");
            });
            work_quietly(&executor);
            assert_eq!(spawned_by_a_stranger(&executor), 1, "isolation is over");
        },
    );
}
