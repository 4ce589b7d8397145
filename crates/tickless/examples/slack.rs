//! Wake-ups of a thousand sleeps, exact and with slack. Run with `cargo run --example slack`.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::time::Duration;

use futures::future::join_all;
use tickless::Worker;
use tickless::time::{Instant, Precision, Slack, sleep_until, with_slack};

/// Runs a thousand sleeps that end within 100 ms, and returns the number of interrupts that the worker had for them.
fn interrupts(worker: &Worker, slack: Slack) -> u64 {
    let before = tickless::stats().interrupts;
    let start = Instant::now() + Duration::from_millis(10);
    // Anywhere in 100 ms.
    let ends =
        (0..1_000_u32).map(|number| Duration::from_micros(u64::from(number * 37_987 % 100_000)));
    let sleeps = join_all(ends.map(|after| sleep_until(start + after)));
    worker.block_on(with_slack(slack, sleeps));
    tickless::stats().interrupts - before
}

fn main() -> Result<(), tickless::StartError> {
    let worker = Worker::new()?;
    for slack in [
        Precision::Exact.into(),
        Precision::Relative.into(),
        Duration::from_micros(100).into(),
        Precision::Millisecond.into(),
        Duration::from_millis(10).into(),
    ] {
        let count = interrupts(&worker, slack);
        println!("1,000 sleeps with a slack of {slack:?}: {count:>4} interrupts");
    }
    Ok(())
}
