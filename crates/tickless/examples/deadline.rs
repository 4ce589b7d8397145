//! A control loop that has a reservation of two milliseconds in every ten, together with computing tasks and a task
//! that requests too much.
//!
//! `cargo run --release -p tickless --example deadline`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tickless::task::{Deadline, Spec};
use tickless::{Executor, coop, time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let executor = Executor::builder().workers(1).build()?;
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let stop = Arc::clone(&stop);
        let computes = executor.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                coop::checkpoint().await;
            }
        });
        computes.detach();
    }

    let period = Duration::from_millis(10);
    let two_of_ten = Deadline::periodic(Duration::from_millis(2), period)?;
    let spec = Spec::new().name("control").deadline(two_of_ten);
    let control = executor.try_spawn_with(spec, async move {
        let mut periods = time::interval(period);
        let mut worst = Duration::ZERO;
        for _ in 0..50 {
            let due = periods.tick().await.into_std();
            worst = worst.max(due.elapsed());
            // Measure, compute, steer: about a millisecond.
            while due.elapsed() < Duration::from_millis(1) {
                coop::checkpoint().await;
            }
        }
        worst
    })?;

    // This one never waits, and gets its tenth nevertheless, not more.
    let tenth = Deadline::periodic(Duration::from_millis(1), period)?;
    let seen = Arc::clone(&stop);
    let greedy = executor.try_spawn_with(tenth, async move {
        while !seen.load(Ordering::Relaxed) {
            coop::checkpoint().await;
        }
    })?;

    let too_much = Deadline::periodic(Duration::from_millis(8), period)?;
    if let Err(refused) = executor.try_spawn_with(too_much, async {}) {
        println!("not taken: {refused}");
    }

    let begun = Instant::now();
    let worst = executor.block_on(control)?;
    println!(
        "50 periods in {:?}, each begun {worst:?} late at most",
        begun.elapsed()
    );
    let stats = executor.stats();
    println!(
        "throttled {} times; the system ran others on the worker's CPU for {:?}, which no deadline bounds",
        stats.throttles, stats.stolen
    );
    stop.store(true, Ordering::Relaxed);
    executor.block_on(greedy)?;
    Ok(())
}
