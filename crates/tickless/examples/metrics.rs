//! A small program that prints its counters as Prometheus scrapes them. Run with
//! `cargo run -p tickless --example metrics`.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::time::Duration;

use tickless::time::{MissedTickBehavior, interval, sleep, timeout};
use tickless::{Worker, metrics};

/// Runs some timers on a worker, and returns the counters of the process as text.
pub(crate) fn run() -> Result<String, Box<dyn Error>> {
    metrics::count_lateness(true);
    let worker = Worker::new()?;
    worker.block_on(async {
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for _ in 0..20 {
            ticks.tick().await;
        }
        // Away for some periods: these ticks are missed.
        std::thread::sleep(Duration::from_millis(10));
        ticks.tick().await;

        // Cancelled, because the other future is ready first.
        for _ in 0..10 {
            let _in_time = timeout(Duration::from_secs(30), sleep(Duration::from_micros(50))).await;
        }
    });
    let mut text = String::new();
    metrics::write_prometheus(&mut text)?;
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run()?);
    Ok(())
}
