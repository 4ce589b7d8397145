//! Tests of threads that run their own timers, block elsewhere, and are helped by the background thread.

mod support;

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use futures::future::join_all;
use support::{Wakes, assert_passed, block_on, ms, on_thread, poll_idly, poll_with, us};
use tickless::time::sleep;
use tickless::topology::{CpuSet, Topology};
use tickless::{Executor, Worker, Workers};

/// Runs `body` on a thread of its own; ends the process, with the state of all timers, if `body` does not end.
#[track_caller]
fn assert_ends(body: impl FnOnce() + Send + 'static) {
    let _patience = support::begin();
    on_thread(body);
}

/// Makes this thread a worker that is helped.
fn helped() -> Worker {
    Worker::new().expect("the thread is free")
}

fn sleep_on(worker: &Worker) {
    let start = Instant::now();
    worker.block_on(sleep(ms(2)));
    assert_passed(start, ms(2));
}

/// A worker that blocks in another executor takes no turns.
#[test]
fn a_worker_that_blocks_elsewhere_is_late_and_not_lost() {
    assert_ends(|| {
        let worker = helped();
        let before = tickless::stats().stuck_expired;
        for _ in 0..5 {
            let start = Instant::now();
            futures::executor::block_on(sleep(ms(2)));
            assert_passed(start, ms(2));
        }
        let fired = tickless::stats().stuck_expired - before;
        assert!(fired > 0, "none is counted");
        // It takes its turns again, and is no worse a worker.
        sleep_on(&worker);
        futures::executor::block_on(sleep(ms(2)));
        sleep_on(&worker);
    });
}

#[test]
fn a_sleep_that_a_worker_polled_and_another_thread_awaits_ends() {
    assert_ends(|| {
        let _worker = helped();
        let mut sleep = Box::pin(sleep(ms(2)));
        assert!(poll_idly(sleep.as_mut()).is_pending());
        on_thread(move || block_on(sleep));
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no event loops on the portable host")]
fn an_event_loop_that_blocks_elsewhere_is_late_and_not_lost() {
    assert_ends(|| {
        let driver = tickless::Driver::new().expect("there is a place");
        for _ in 0..3 {
            futures::executor::block_on(sleep(ms(2)));
        }
        let _turn = driver.turn();
        futures::executor::block_on(sleep(ms(2)));
    });
}

/// All of many timers fire, whatever they start meanwhile, and however the turns of both threads meet.
#[test]
fn a_worker_that_is_stuck_now_and_then_loses_nothing() {
    assert_ends(|| {
        let worker = helped();
        for round in 0_u64..30 {
            let sleeps = (1..20).map(|n| async move {
                for _ in 0..2 {
                    sleep(us(n * 97 + round)).await;
                }
            });
            if round % 3 == 0 {
                worker.block_on(join_all(sleeps));
            } else {
                futures::executor::block_on(join_all(sleeps));
            }
            thread::sleep(us(round * 300));
        }
    });
}

#[test]
fn an_isolated_worker_is_helped_if_it_asked_for_that() {
    assert_ends(|| {
        let (end, ended) = mpsc::channel::<()>();
        let (began, begins) = mpsc::channel();
        let other = thread::spawn(move || {
            let _worker = helped();
            let _waits = began.send(());
            let _dropped = ended.recv();
        });
        begins.recv().expect("it begins");
        let worker = helped();
        worker.set_isolated(true).expect("there is another worker");
        worker.set_helped(true);
        futures::executor::block_on(sleep(ms(2)));
        futures::executor::block_on(sleep(ms(2)));
        drop((worker, end));
        other.join().expect("it does not panic");
    });
}

/// A task calls `block_on` of another crate, while other workers are idle or do not exist.
#[test]
fn a_task_that_blocks_on_a_sleep_elsewhere_is_late_and_not_lost() {
    for workers in [1, 4] {
        assert_ends(move || {
            let executor = Executor::builder()
                .workers(workers)
                .build()
                .expect("it starts");
            let task = executor.spawn(async {
                let start = Instant::now();
                futures::executor::block_on(sleep(ms(2)));
                assert_passed(start, ms(2));
            });
            executor.block_on(task).expect("it does not panic");
        });
    }
}

/// The timer of a worker without help fires only in the worker's own turn, however late this turn is.
#[test]
fn workers_that_were_built_without_help_get_none() {
    assert_ends(|| {
        let workers = Workers::builder().workers(1).helped(false);
        let workers = workers.spawn(|worker, _| {
            let (wakes, waker) = Wakes::new();
            let mut sleep = Box::pin(sleep(ms(1)));
            assert!(poll_with(sleep.as_mut(), &waker).is_pending());
            // Ten times as long as it would take the background thread to come.
            thread::sleep(ms(100));
            assert_eq!(wakes.count(), 0, "no other thread may fire it");
            let _turn = worker.turn();
            assert_eq!(wakes.count(), 1);
        });
        for result in workers.expect("they start").join() {
            result.expect("it does not panic");
        }
    });
}

/// The setting of a builder holds for isolated workers, too.
#[test]
#[cfg_attr(portable_host, ignore = "no pinning on the portable host")]
fn isolated_workers_that_were_built_with_help_get_it() {
    let machine = Topology::read().expect("it can be read");
    let cpus: CpuSet = machine
        .allowed()
        .unwrap_or(machine.online())
        .iter()
        .take(2)
        .collect();
    if cpus.len() < 2 {
        return support::skip(
            "isolated_workers_that_were_built_with_help_get_it",
            "there is one CPU",
        );
    }
    let quiet: CpuSet = cpus.iter().skip(1).collect();
    assert_ends(move || {
        let workers = Workers::builder().pin(cpus).isolate(quiet).helped(true);
        let workers = workers.spawn(|_, _| futures::executor::block_on(sleep(ms(2))));
        for result in workers.expect("they start").join() {
            result.expect("it does not panic");
        }
    });
}

/// An executor without help behaves as workers without help do: a task polls a sleep and keeps the only worker from its
/// turns.
#[test]
fn executors_that_were_built_without_help_get_none() {
    assert_ends(|| {
        let executor = Executor::builder()
            .workers(1)
            .helped(false)
            .build()
            .expect("it starts");
        let (wakes, waker) = Wakes::new();
        let task = executor.spawn(async move {
            let mut sleep = Box::pin(sleep(ms(1)));
            assert!(poll_with(sleep.as_mut(), &waker).is_pending());
            thread::sleep(ms(100));
            assert_eq!(wakes.count(), 0, "no other thread may fire it");
            sleep.await;
        });
        executor.block_on(task).expect("it does not panic");
    });
}
