//! Sleeps of a program with one thread, as on `wasm32-wasip1`: a worker fires its own timers, and no timer is early.
//!
//! `cargo run -p tickless --example alone`; in node by `cargo xtask check --only platforms`.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::time::{Duration, Instant};

use tickless::{StartError, Worker, time};

fn main() -> Result<(), StartError> {
    let worker = Worker::new()?;
    for micros in [0, 1, 300, 999, 1_001, 17_000] {
        let length = Duration::from_micros(micros);
        let start = Instant::now();
        worker.block_on(time::sleep(length));
        assert!(start.elapsed() >= length, "{length:?} is over early");
    }
    let start = Instant::now();
    let mut ticks = time::interval(Duration::from_millis(2));
    for number in 0..5 {
        worker.block_on(ticks.tick());
        assert!(start.elapsed() >= Duration::from_millis(2) * number);
    }
    let never = worker.block_on(time::timeout(
        Duration::from_millis(3),
        std::future::pending::<()>(),
    ));
    assert!(never.is_err());
    println!("no sleep was early, and none was lost");
    Ok(())
}
