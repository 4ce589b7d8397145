//! Workers, runtimes and timers as several groups of measurements use them.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tickless::Worker;
use tickless::hrtimer::{Expired, HrTimer, Instant as CoreInstant, Monotonic, Restart, Start};

/// A delay in nanoseconds so long that no timer fires during a measurement.
pub(crate) const FAR: i64 = 10_000_000_000_000;

pub(crate) type PlainTimer = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;

pub(crate) fn plain_timer() -> Pin<Box<PlainTimer>> {
    Box::pin(HrTimer::new(|_| Restart::No))
}

pub(crate) fn at(nanos: i64) -> Start {
    Start::at(CoreInstant::from_nanos(nanos))
}

/// Lets the library measure the rate of the time-stamp counter, which takes the first 20 ms of use.
pub(crate) fn warm_up(worker: &Worker) {
    let end = Instant::now() + Duration::from_millis(200);
    while tickless::clock::time_stamp_counter() == Err(tickless::clock::Refusal::Calibrating)
        && Instant::now() < end
    {
        worker.block_on(tickless::time::sleep(Duration::from_millis(1)));
    }
}

pub(crate) fn worker() -> Worker {
    let worker = Worker::new().expect("this thread is no worker yet");
    warm_up(&worker);
    worker
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime can be built")
}

/// Calls `body`, which executes `operations` operations, and returns the nanoseconds for one operation.
pub(crate) fn time(operations: u64, body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        start.elapsed().as_nanos() as f64 / operations as f64
    }
}

/// Executes `operation` as often as `operations` says, and returns the nanoseconds for one execution.
pub(crate) fn each(operations: u64, mut operation: impl FnMut()) -> f64 {
    time(operations, || {
        for _ in 0..operations {
            operation();
        }
    })
}
