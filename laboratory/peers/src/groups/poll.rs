//! The cost of the check for due timers that a busy worker makes all the time.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tickless::hrtimer::{Monotonic, now};

use crate::rounds::{Group, subjects};
use crate::threads::{FAR, at, each, plain_timer, worker};

/// Measures the check for due timers while no timer is due.
pub(super) fn measure(group: &mut Group<'_>) {
    let worker = worker();
    let timer = plain_timer();
    let _ = timer
        .as_ref()
        .start(at(now::<Monotonic>().as_nanos() + FAR));
    let operations = group.operations(2_000_000);
    let counter = Mutex::new(());
    group.measure(
        [("", 1, 1)],
        subjects![
            "tickless" => each(operations, || { black_box(worker.is_due()); }),
            "limit: std::time::Instant::now() alone" => each(operations, || { black_box(Instant::now()); }),
            "limit: sleep(5 s) made and dropped: the clock alone" => each(operations, || { drop(black_box(tickless::time::sleep(Duration::from_secs(5)))); }),
            "limit: std::sync::Mutex, lock and unlock alone" => each(operations, || { drop(black_box(counter.lock())); }),
        ],
    );
    timer.as_ref().cancel();
}
