//! The cost of futures: arm and cancel, reset, and a timeout that is ready at once.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use fastrand::Rng;

use crate::harness::{Group, Options, Sink, each, subjects};
use crate::threads::{TOKIO, runtime, worker};

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
        subjects![
            "tickless" => each_of(durations, operations, |after| poll_once!(tickless::time::sleep(after))),
            COARSE => each_of(durations, operations, |after| poll_once!(tickless::coarse::sleep(after))),
            TOKIO => each_of(durations, operations, |after| poll_once!(tokio::time::sleep(after))),
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
    macro_rules! each_reset {
        ($sleeps:ident, $instant:ty) => {{
            let mut random = Rng::with_seed(29);
            each(operations, || {
                let deadline = <$instant>::now() + after;
                $sleeps[random.usize(..pending)].as_mut().reset(deadline);
            })
        }};
    }
    Group::measure(
        "reset of a sleep to 500 s from now",
        pending as u64,
        options,
        subjects![
            "tickless" => each_reset!(ours, tickless::time::Instant),
            COARSE => each_reset!(coarse, tickless::time::Instant),
            TOKIO => each_reset!(theirs, tokio::time::Instant),
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
        subjects![
            "tickless" => each(operations, || poll_once!(tickless::time::timeout(limit, async {}))),
            TOKIO => each(operations, || poll_once!(tokio::time::timeout(limit, async {}))),
        ],
    ));
}
