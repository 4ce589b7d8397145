//! Tests of executors in the child of a fork.
//!
//! As in `process`, each test has a process of its own in which nothing else runs.

use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::fork::{end_soon, fork, fork_here};
use crate::support::{block_on, in_own_process, us};
use tickless::hrtimer::{HrTimer, Restart};
use tickless::time::sleep;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_child_of_a_fork_has_no_executor() {
    in_own_process("fork::the_child_of_a_fork_has_no_executor", || {
        let executor = tickless::Executor::builder().workers(2);
        let executor = executor.build().expect("there are threads");
        for _ in 0..20 {
            fork(|| {
                assert!(block_on(executor.spawn(async { 1 })).is_err());
                assert_eq!(executor.shutdown(us(100)), 0);
            })
            .join();
            assert_eq!(block_on(executor.spawn(async { 2 })).expect("it ends"), 2);
        }
    });
}

/// The child ends whether the poll waits for an event of the parent, for a timer, or for nothing.
#[test]
fn a_child_that_was_forked_in_a_poll_ends_with_it() {
    in_own_process(
        "fork::a_child_that_was_forked_in_a_poll_ends_with_it",
        || {
            for workers in [1, 2] {
                let executor = tickless::Executor::builder().workers(workers);
                let executor = executor.build().expect("there are threads");
                let waits = executor.spawn(std::future::pending::<()>());
                let mut waits = Some(waits);
                for round in 0..3 {
                    let waits = waits.take_if(|_| round == 0);
                    let forks = executor.spawn(async move {
                        let _timer = HrTimer::new(|_| Restart::No);
                        let child = fork_here();
                        if child.is_none() {
                            end_soon();
                            match (round, waits) {
                                (0, Some(waits)) => drop(waits.await),
                                (1, _) => sleep(HOUR).await,
                                _ => {}
                            }
                        }
                        child
                    });
                    let child = block_on(forks).expect("the task ends");
                    child.expect("this is the parent").join();
                    assert_eq!(block_on(executor.spawn(async { 2 })).expect("it ends"), 2);
                }
            }
        },
    );
}

/// A closure that waits for the only thread of the pool is executed once, by the parent.
#[test]
fn a_child_that_was_forked_in_blocking_work_ends_with_it() {
    in_own_process(
        "fork::a_child_that_was_forked_in_blocking_work_ends_with_it",
        || {
            let executor = tickless::Executor::builder().workers(1).blocking_threads(1);
            let executor = executor.build().expect("there are threads");
            let (mut reader, writer) = std::io::pipe().expect("there are descriptors");
            let (go_on, told) = mpsc::channel::<()>();
            let forks = executor.spawn_blocking(move || {
                // The others wait by now.
                told.recv().expect("the test tells");
                let child = fork_here();
                if child.is_none() {
                    end_soon();
                }
                child
            });
            let others: Vec<_> = (0..3)
                .map(|_| {
                    let mut writer = writer.try_clone().expect("there are descriptors");
                    executor.spawn_blocking(move || writer.write_all(b"x").expect("it is open"))
                })
                .collect();
            drop(writer);
            go_on.send(()).expect("it waits");
            let child = block_on(forks).expect("it ends");
            child.expect("this is the parent").join();
            for other in others {
                block_on(other).expect("it ends");
            }
            let mut written = String::new();
            reader.read_to_string(&mut written).expect("it is text");
            assert_eq!(written, "xxx");
        },
    );
}
