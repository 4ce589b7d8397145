//! Retries with growing, random pauses and a time limit for all of them together: backon on exact timers.
//!
//! `cargo run --manifest-path adapters/Cargo.toml --example retry --features backon`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::cell::Cell;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tickless::time::{Instant, timeout};
use tickless_adapters::backon::Sleeper;

/// Fails twice, like a server that is still starting, and then succeeds.
async fn ask(attempts: &Cell<u32>) -> Result<&'static str, &'static str> {
    attempts.set(attempts.get() + 1);
    if attempts.get() < 3 {
        Err("not ready")
    } else {
        Ok("here you are")
    }
}

/// Retries until a request succeeds, and returns the number of attempts.
pub(crate) fn run() -> u32 {
    let attempts = Cell::new(0);
    let policy = ExponentialBuilder::default()
        .with_min_delay(Duration::from_micros(500))
        .with_max_delay(Duration::from_millis(50))
        .with_max_times(5)
        .with_jitter();
    let started = Instant::now();
    let asking = (|| ask(&attempts))
        .retry(policy)
        .sleep(Sleeper)
        .notify(|error, pause| println!("{error}: again after {pause:?}"));
    match futures::executor::block_on(timeout(Duration::from_secs(60), asking)) {
        Ok(Ok(answer)) => println!("{answer}, after {:?}", started.elapsed()),
        Ok(Err(error)) => println!("given up: {error}"),
        Err(elapsed) => println!("given up: {elapsed}"),
    }
    attempts.get()
}

fn main() {
    run();
}
