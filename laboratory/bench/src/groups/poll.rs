//! The cost of the check for due timers that a busy worker makes all the time.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tickless::hrtimer::{Monotonic, now};

use crate::harness::{Group, Options, Sink, each, subjects};
use crate::threads::{FAR, at, plain_timer, worker};

/// Measures the check for due timers while no timer is due.
pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    let worker = worker();
    let timer = plain_timer();
    let _ = timer
        .as_ref()
        .start(at(now::<Monotonic>().as_nanos() + FAR));
    let operations = options.operations(2_000_000);
    let counter = Mutex::new(());
    let group = Group::measure(
        "is anything due? with a timer pending and nothing due",
        1,
        options,
        subjects![
            "tickless" => each(operations, || { black_box(worker.is_due()); }),
            "std::time::Instant::now() alone" => each(operations, || { black_box(Instant::now()); }),
            "sleep(5 s) made and dropped: the clock alone" => each(operations, || { drop(black_box(tickless::time::sleep(Duration::from_secs(5)))); }),
            "std::sync::Mutex, lock and unlock alone" => each(operations, || { drop(black_box(counter.lock())); }),
        ],
    );
    timer.as_ref().cancel();
    sink(group);
}
