//! The cost of futures: arm and cancel, reset, a timeout that is ready at once, and two threads.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

use fastrand::Rng;

use super::{Sink, TOKIO, runtime, worker};
use crate::harness::{Group, Options, each, time};

/// Polls a future once where it was made, and drops it.
macro_rules! poll_once {
    ($future:expr) => {{
        let mut future = pin!($future);
        let mut context = Context::from_waker(Waker::noop());
        black_box(future.as_mut().poll(&mut context).is_pending());
    }};
}

const COARSE: &str = "tickless::coarse";

/// The durations of the timers that are armed and cancelled.
#[derive(Clone, Copy)]
enum Durations {
    /// The same duration for all timers, as for the timeouts of one kind of connection.
    Fixed,
    /// Random durations from 100 to 1,100 seconds.
    Random,
}

impl Durations {
    fn next(self, random: &mut Rng) -> Duration {
        match self {
            Self::Fixed => Duration::from_secs(500),
            Self::Random => Duration::from_micros(100_000_000 + random.u64(..1_000_000_000)),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "all of 500 s",
            Self::Random => "of up to 1,100 s",
        }
    }
}

/// Returns the nanoseconds for one execution of `operation`, which gets one of the `durations` each time.
fn each_of(durations: Durations, operations: u64, mut operation: impl FnMut(Duration)) -> f64 {
    let mut random = Rng::with_seed(19);
    each(operations, || operation(durations.next(&mut random)))
}

/// Returns `count` pending futures.
fn pending_of<F: Future>(count: usize, mut make: impl FnMut() -> F) -> Vec<Pin<Box<F>>> {
    let mut context = Context::from_waker(Waker::noop());
    let futures = (0..count).map(|_| {
        let mut future = Box::pin(make());
        assert!(future.as_mut().poll(&mut context).is_pending());
        future
    });
    futures.collect()
}

/// Measures arm and cancel of a sleep, including its clock reading, against a sleep of tokio.
pub(super) fn arm_and_cancel(options: &Options, sink: Sink<'_>) {
    for pending in [0_usize, 1_000, 100_000, 1_000_000] {
        for durations in [Durations::Fixed, Durations::Random] {
            if pending == 0 && matches!(durations, Durations::Random) {
                continue;
            }
            sink(sleep_with(options, pending, durations));
        }
    }
}

fn sleep_with(options: &Options, pending: usize, durations: Durations) -> Group {
    let worker = worker();
    let runtime = runtime();
    let _entered = runtime.enter();
    let mut random = Rng::with_seed(17);
    let mut after = || Durations::Random.next(&mut random);
    let ours = pending_of(pending, || tickless::time::sleep(after()));
    let coarse = pending_of(pending, || tickless::coarse::sleep(after()));
    let _theirs = pending_of(pending, || tokio::time::sleep(after()));
    let operations = options.operations(200_000);
    let group = Group::measure(
        format!("arm and cancel of a sleep, {}", durations.name()),
        pending as u64,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    each_of(durations, operations, |after| {
                        poll_once!(tickless::time::sleep(after))
                    })
                }),
            ),
            (
                COARSE,
                Box::new(|| {
                    each_of(durations, operations, |after| {
                        poll_once!(tickless::coarse::sleep(after))
                    })
                }),
            ),
            (
                TOKIO,
                Box::new(|| {
                    each_of(durations, operations, |after| {
                        poll_once!(tokio::time::sleep(after))
                    })
                }),
            ),
        ],
    );
    drop((ours, coarse));
    drop(worker);
    match pending {
        0..=1_000 => group.at_most(0.5, TOKIO),
        // What the sorted queue alone could not do.
        1_000_000 => group.at_most(0.25, TOKIO).at_most(1.3, COARSE),
        _ => group.at_most(0.25, TOKIO),
    }
}

/// Measures the reset of a queued sleep to another deadline, as each request resets the timeout of its connection.
pub(super) fn reset(options: &Options, sink: Sink<'_>) {
    for pending in [1_000, 100_000] {
        sink(reset_with(options, pending));
    }
}

fn reset_with(options: &Options, pending: usize) -> Group {
    let _worker = worker();
    let runtime = runtime();
    let _entered = runtime.enter();
    let after = Duration::from_secs(500);
    let mut ours = pending_of(pending, || tickless::time::sleep(after));
    let mut coarse = pending_of(pending, || tickless::coarse::sleep(after));
    let mut theirs = pending_of(pending, || tokio::time::sleep(after));
    let operations = options.operations(200_000);
    let order = || {
        let mut random = Rng::with_seed(29);
        std::iter::repeat_with(move || random.usize(..pending))
    };
    let (mut of_ours, mut of_coarse, mut of_theirs) = (order(), order(), order());
    Group::measure(
        "reset of a sleep to 500 s from now",
        pending as u64,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    time(operations, || {
                        for (_, index) in (0..operations).zip(of_ours.by_ref()) {
                            let deadline = tickless::time::Instant::now() + after;
                            ours[index].as_mut().reset(deadline);
                        }
                    })
                }),
            ),
            (
                COARSE,
                Box::new(|| {
                    time(operations, || {
                        for (_, index) in (0..operations).zip(of_coarse.by_ref()) {
                            let deadline = tickless::time::Instant::now() + after;
                            coarse[index].as_mut().reset(deadline);
                        }
                    })
                }),
            ),
            (
                TOKIO,
                Box::new(|| {
                    time(operations, || {
                        for (_, index) in (0..operations).zip(of_theirs.by_ref()) {
                            let deadline = tokio::time::Instant::now() + after;
                            theirs[index].as_mut().reset(deadline);
                        }
                    })
                }),
            ),
        ],
    )
}

/// Measures a timeout around a future that is ready at its first poll.
pub(super) fn timeout_ready(options: &Options, sink: Sink<'_>) {
    let _worker = worker();
    let runtime = runtime();
    let _entered = runtime.enter();
    let operations = options.operations(1_000_000);
    let limit = Duration::from_secs(5);
    sink(Group::measure(
        "timeout around a future that is ready at once",
        0,
        options,
        vec![
            (
                "tickless",
                Box::new(|| {
                    each(operations, || {
                        poll_once!(tickless::time::timeout(limit, async {}));
                    })
                }),
            ),
            (
                TOKIO,
                Box::new(|| {
                    each(operations, || {
                        poll_once!(tokio::time::timeout(limit, async {}));
                    })
                }),
            ),
        ],
    ));
}

/// Arms and cancels timers on `threads` threads at once, each of which is a worker. Returns the nanoseconds for one
/// operation of one thread.
fn on_threads(threads: usize, operations: u64, prepare: fn() -> Box<dyn FnMut()>) -> f64 {
    let barrier = Arc::new(Barrier::new(threads));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                let mut operation = prepare();
                for _ in 0..operations / 10 {
                    operation();
                }
                barrier.wait();
                time(operations, || (0..operations).for_each(|_| operation()))
            })
        })
        .collect();
    let each = handles
        .into_iter()
        .map(|handle| handle.join().expect("no panic"));
    #[expect(clippy::cast_precision_loss, reason = "few threads")]
    {
        each.sum::<f64>() / threads as f64
    }
}

fn arm_and_cancel_on_a_worker() -> Box<dyn FnMut()> {
    let worker = worker();
    Box::new(move || {
        let _ = &worker;
        poll_once!(tickless::time::sleep(Duration::from_secs(5)));
    })
}

fn arm_and_cancel_in_tokio() -> Box<dyn FnMut()> {
    static SHARED: std::sync::OnceLock<tokio::runtime::Runtime> = std::sync::OnceLock::new();
    let handle = SHARED.get_or_init(runtime).handle().clone();
    Box::new(move || {
        let _entered = handle.enter();
        poll_once!(tokio::time::sleep(Duration::from_secs(5)));
    })
}

/// Measures whether two threads slow each other down.
pub(super) fn two_threads(options: &Options, sink: Sink<'_>) {
    let operations = options.operations(500_000);
    let ours = Group::measure(
        "arm and cancel of a sleep, per thread",
        0,
        options,
        vec![
            (
                "tickless",
                Box::new(|| on_threads(2, operations, arm_and_cancel_on_a_worker)),
            ),
            (
                "tickless, one thread alone",
                Box::new(|| on_threads(1, operations, arm_and_cancel_on_a_worker)),
            ),
            (
                "tokio, two threads",
                Box::new(|| on_threads(2, operations / 4, arm_and_cancel_in_tokio)),
            ),
            (
                "tokio, one thread alone",
                Box::new(|| on_threads(1, operations / 4, arm_and_cancel_in_tokio)),
            ),
        ],
    );
    sink(ours.threads(2).at_most(1.05, "tickless, one thread alone"));
}
