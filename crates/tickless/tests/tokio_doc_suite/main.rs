//! Tests of the behaviour that the documentation of `tokio::time` states: one source, run with tokio and with this
//! library.
//!
//! tokio is the oracle: a case that contradicts tokio fails when it runs with tokio. Deadlines are whole milliseconds,
//! because tokio rounds to milliseconds; `SLOP` is the time that this rounding may add.
//!
//! Only in a debug build: the cases are executed by one thread whose clock is paused, which neither optimisation nor
//! debug assertions change, and `tests/time` executes the same functions in both builds. Half of the cases are tokio's.

#![cfg(debug_assertions)]

#[macro_use]
mod details;
#[path = "../support/mod.rs"]
mod support;

use std::future::Future;

/// Makes the cases for the time module `$time`; `$run` runs a future under a paused clock.
macro_rules! suite {
    ($name:ident, $time:path, $run:path, $slop:expr) => {
        mod $name {
            use std::future::{pending, ready};
            use std::pin::pin;
            use std::time::Duration;

            use super::support::{message_of, ms, poll_idly};
            use time::{
                Instant, MissedTickBehavior, advance, interval, interval_at, sleep, sleep_until,
                timeout, timeout_at,
            };
            use $run as run;
            use $time as time;

            const SLOP: Duration = Duration::from_millis($slop);

            /// Checks that `start` was `length` ago, as exactly as this library wakes tasks.
            fn took(start: Instant, length: Duration) {
                let elapsed = start.elapsed();
                assert!(
                    length <= elapsed && elapsed <= length + SLOP,
                    "{elapsed:?} for {length:?}"
                );
            }

            #[test]
            fn a_clock_is_paused_once_and_advanced_while_it_is() {
                run(async {
                    assert_eq!(message_of(time::pause), "time is already frozen");
                    time::resume();
                    assert_eq!(message_of(time::resume), "time is not frozen");
                    let mut moves = pin!(advance(ms(1)));
                    assert_eq!(
                        message_of(|| {
                            let _ready = poll_idly(moves.as_mut());
                        }),
                        "time is not frozen"
                    );
                    time::pause();
                });
            }

            #[test]
            fn a_sleep_is_over_at_its_deadline() {
                run(async {
                    let start = Instant::now();
                    let mut waits = pin!(sleep(ms(100)));
                    assert_eq!(waits.deadline(), start + ms(100));
                    assert!(!waits.is_elapsed());
                    assert!(poll_idly(waits.as_mut()).is_pending());
                    advance(ms(99)).await;
                    assert!(poll_idly(waits.as_mut()).is_pending());
                    assert!(!waits.is_elapsed());
                    advance(ms(1) + SLOP).await;
                    assert!(poll_idly(waits.as_mut()).is_ready());
                    assert!(waits.is_elapsed());
                });
            }

            #[test]
            fn a_sleep_is_reset_before_and_behind_its_end() {
                run(async {
                    let start = Instant::now();
                    let mut waits = pin!(sleep(ms(100)));
                    waits.as_mut().reset(start + ms(300));
                    assert_eq!(waits.deadline(), start + ms(300));
                    waits.as_mut().await;
                    took(start, ms(300));
                    assert!(waits.is_elapsed());
                    let again = Instant::now();
                    waits.as_mut().reset(again + ms(50));
                    assert!(!waits.is_elapsed());
                    waits.as_mut().await;
                    took(again, ms(50));
                    // To an earlier time, while it waits.
                    let again = Instant::now();
                    waits.as_mut().reset(again + ms(500));
                    assert!(poll_idly(waits.as_mut()).is_pending());
                    waits.as_mut().reset(again + ms(20));
                    waits.await;
                    took(again, ms(20));
                });
            }

            #[test]
            fn what_is_over_is_over_at_once() {
                run(async {
                    let start = Instant::now();
                    sleep(Duration::ZERO).await;
                    sleep_until(start - ms(10)).await;
                    took(start, Duration::ZERO);
                });
            }

            #[test]
            fn a_sleep_for_ever_ends_in_thirty_years() {
                run(async {
                    let start = Instant::now();
                    sleep(Duration::MAX).await;
                    took(start, Duration::from_secs(86_400 * 365 * 30));
                });
            }

            #[test]
            fn a_timeout_polls_its_future_first() {
                run(async {
                    assert_eq!(timeout(Duration::ZERO, ready(7)).await, Ok(7));
                    assert_eq!(timeout(Duration::MAX, ready(7)).await, Ok(7));
                    let past = Instant::now() - ms(1);
                    assert_eq!(timeout_at(past, ready(7)).await, Ok(7));
                    let start = Instant::now();
                    let late = timeout(ms(50), pending::<()>()).await;
                    took(start, ms(50));
                    let error = late.expect_err("it is late");
                    assert_eq!(error.to_string(), "deadline has elapsed");
                    let error = std::io::Error::from(error);
                    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
                    let in_time = timeout(ms(50), async {
                        sleep(ms(20)).await;
                        3
                    });
                    assert_eq!(in_time.await, Ok(3));
                    let mut whole = timeout(ms(1), ready(5));
                    assert_eq!(whole.get_ref().clone().into_inner(), 5);
                    *whole.get_mut() = ready(6);
                    assert_eq!(whole.into_inner().into_inner(), 6);
                });
            }

            #[test]
            fn an_interval_ticks_at_once_and_then_each_period() {
                run(async {
                    let start = Instant::now();
                    let mut ticks = interval(ms(100));
                    assert_eq!(ticks.period(), ms(100));
                    assert_eq!(ticks.missed_tick_behavior(), MissedTickBehavior::Burst);
                    for round in 0..5_u32 {
                        assert_eq!(ticks.tick().await, start + round * ms(100));
                        took(start, round * ms(100));
                    }
                    let begin = Instant::now() + ms(40);
                    let mut ticks = interval_at(begin, ms(10));
                    assert_eq!(ticks.tick().await, begin);
                    assert_eq!(ticks.tick().await, begin + ms(10));
                });
            }
        }
    };
}

fn with_tokio<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn with_tokio_running<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn with_a_worker_running<F: Future>(future: F) -> F::Output {
    tickless::Worker::new()
        .expect("none so far")
        .block_on(future)
}

fn with_an_executor_running<F: Future>(future: F) -> F::Output {
    let executor = tickless::Executor::builder().workers(1).build();
    executor.expect("threads can be started").block_on(future)
}

fn with_a_worker<F: Future>(future: F) -> F::Output {
    tickless::Worker::new()
        .expect("none so far")
        .block_on(async {
            tickless::time::pause();
            future.await
        })
}

fn with_an_executor<F: Future>(future: F) -> F::Output {
    let executor = tickless::Executor::builder().workers(1).build();
    executor.expect("threads can be started").block_on(async {
        tickless::time::pause();
        future.await
    })
}

suite!(tokio_itself, tokio::time, super::with_tokio, 1);
suite!(on_a_worker, tickless::time, super::with_a_worker, 0);
suite!(on_an_executor, tickless::time, super::with_an_executor, 0);
suite!(within_tokio, tickless::time, super::with_tokio, 1);

details!(
    details_of_tokio,
    tokio::time,
    super::with_tokio,
    super::with_tokio_running,
    1
);
details!(
    details_on_a_worker,
    tickless::time,
    super::with_a_worker,
    super::with_a_worker_running,
    0
);
details!(
    details_on_an_executor,
    tickless::time,
    super::with_an_executor,
    super::with_an_executor_running,
    0
);
details!(
    details_within_tokio,
    tickless::time,
    super::with_tokio,
    super::with_tokio_running,
    1
);
