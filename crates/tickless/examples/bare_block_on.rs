//! Sleeps without a runtime: any executor works, here the executor of `futures`.
//!
//! `cargo run -p tickless --example bare_block_on`
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::time::Duration;

use futures::executor::block_on;
use tickless::time::{MissedTickBehavior, interval, sleep, timeout};

fn main() {
    block_on(async {
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let first = ticks.tick().await;
        for _ in 0..5 {
            let tick = ticks.tick().await;
            println!("a tick {:?} after the first", tick - first);
        }
        let slow = sleep(Duration::from_secs(3600));
        let result = timeout(Duration::from_millis(2), slow).await;
        println!("an hour in two milliseconds: {result:?}");
    });
}
