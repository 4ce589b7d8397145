//! The groups of measurements, by name, and functions that several groups use.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tickless::Worker;
use tickless::hrtimer::{Expired, HrTimer, Instant as CoreInstant, Monotonic, Restart, Start};

use crate::harness::{Group, Options};

mod behind_sleeps;
mod clock;
mod delay_queue;
pub(crate) mod executor;
mod handover;
mod lateness;
mod locks;
mod poll;
mod restart;
mod sleep;
mod wheel;

/// A function that takes each group as soon as it is measured.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Group);

/// A function that measures a set of groups.
pub(crate) type Measure = fn(&Options, Sink<'_>);

/// All sets of groups, by name.
pub(crate) const ALL: &[(&str, Measure)] = &[
    ("restart-in-place", restart::in_place),
    ("sleep", sleep::arm_and_cancel),
    ("reset", sleep::reset),
    ("reset-behind-sleeps", behind_sleeps::measure),
    ("timeout-ready", sleep::timeout_ready),
    ("handover", handover::measure),
    ("poll", poll::measure),
    ("base-lock", locks::measure),
    ("wheel-arm-and-delete", wheel::arm_and_delete),
    ("wheel-expire", wheel::expire),
    ("clock", clock::measure),
    ("executor", executor::measure),
    ("delay-queue", delay_queue::measure),
    ("lateness", lateness::measure),
];

/// A delay in nanoseconds so long that no timer fires during a measurement.
const FAR: i64 = 10_000_000_000_000;

type PlainTimer = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;

fn plain_timer() -> Pin<Box<PlainTimer>> {
    Box::pin(HrTimer::new(|_| Restart::No))
}

fn at(nanos: i64) -> Start {
    Start::at(CoreInstant::from_nanos(nanos))
}

/// Lets the library measure the rate of the time-stamp counter, which takes the first 20 ms of use.
fn warm_up(worker: &Worker) {
    let end = Instant::now() + Duration::from_millis(200);
    while tickless::clock::time_stamp_counter() == Err(tickless::clock::Refusal::Calibrating)
        && Instant::now() < end
    {
        worker.block_on(tickless::time::sleep(Duration::from_millis(1)));
    }
}

/// Returns all indices below `count` in a random order that is the same in each run.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut order);
    order
}

pub(crate) fn worker() -> Worker {
    let worker = Worker::new().expect("this thread is no worker yet");
    warm_up(&worker);
    worker
}

const TOKIO: &str = "tokio, multi-thread runtime";

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime can be built")
}
