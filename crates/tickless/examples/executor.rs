//! A server that answers short requests in time while long ones compute.
//!
//! `cargo run --release -p tickless --example executor`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tickless::task::{Slice, Spec, Weight};
use tickless::{Executor, coop, time};

/// Computes for a long time, and lets other tasks run in between.
async fn compute(stop: Arc<AtomicBool>) -> u64 {
    let mut steps = 0;
    while !stop.load(Ordering::Relaxed) {
        black_box((0..1_000_u32).sum::<u32>());
        steps += 1;
        coop::checkpoint().await;
    }
    steps
}

fn main() -> Result<(), Box<dyn Error>> {
    let executor = Executor::builder()
        .workers(1)
        .slice(Duration::from_millis(1))
        .build()?;
    let stop = Arc::new(AtomicBool::new(false));
    let report = |weight| {
        Spec::new()
            .name("report")
            .weight(Weight::UNIT.times(weight))
    };
    let one = executor.spawn_with(report(1), compute(Arc::clone(&stop)));
    let three = executor.spawn_with(report(3), compute(Arc::clone(&stop)));
    let request = executor.spawn_with(Slice::new(Duration::from_micros(100)), async {
        let mut worst = Duration::ZERO;
        for _ in 0..200 {
            let due = Instant::now() + Duration::from_micros(500);
            time::sleep(Duration::from_micros(500)).await;
            worst = worst.max(due.elapsed());
        }
        worst
    });
    let worst = executor.block_on(request)?;
    stop.store(true, Ordering::Relaxed);
    let (one, three) = (executor.block_on(one)?, executor.block_on(three)?);
    println!(
        "the latest of 200 requests was answered {worst:?} late, beside two reports that compute"
    );
    println!(
        "the report of three times the weight did {:.2} times the work",
        three as f64 / one as f64
    );
    let stats = executor.stats();
    println!(
        "{} switches, {} ticks, {} preemptions",
        stats.switches, stats.ticks, stats.preemptions
    );
    Ok(())
}
