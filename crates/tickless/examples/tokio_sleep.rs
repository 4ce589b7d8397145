//! Exact sleeps inside of tokio: only the `use` line changes.
//!
//! `cargo run --release -p tickless --example tokio_sleep`
#![expect(clippy::print_stdout, reason = "it shows what it measures")]

use std::time::{Duration, Instant};

use tickless::time::sleep;

#[tokio::main]
async fn main() {
    let asked = Duration::from_micros(200);
    let mut late = Vec::new();
    for _ in 0..1_000 {
        let start = Instant::now();
        sleep(asked).await;
        late.push(start.elapsed() - asked);
    }
    late.sort();
    println!(
        "1,000 sleeps of {asked:?} inside of tokio: median {:?} late, 99 % below {:?}",
        late[500], late[990]
    );
}
