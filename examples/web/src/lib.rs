//! An example of sleeps in JavaScript's event loop, in a page or in node: no sleep is early, and no sleep is lost.
//!
//! `run` is an asynchronous function that returns its report. The `README.md` of this example says how it is built and
//! run.

use std::time::Duration;

use tickless::time::{self, Instant};
use wasm_bindgen::prelude::wasm_bindgen;

/// Runs sleeps, ticks and time-outs; returns the report.
///
/// # Errors
///
/// A message about the first sleep that was early or did not end as it should.
#[wasm_bindgen]
pub async fn run() -> Result<String, String> {
    let mut report = String::new();
    for micros in [0_u64, 1, 300, 999, 1_001, 17_000] {
        let length = Duration::from_micros(micros);
        let start = Instant::now();
        time::sleep(length).await;
        let took = start.elapsed();
        if took < length {
            return Err(format!("{length:?} was over after {took:?}"));
        }
        report += &format!("sleep {length:?}: {took:?}\n");
    }
    let start = Instant::now();
    let period = Duration::from_millis(2);
    let mut ticks = time::interval(period);
    for number in 0..20 {
        ticks.tick().await;
        let took = start.elapsed();
        if took < period * number {
            return Err(format!("tick {number} came after {took:?}"));
        }
    }
    report += &format!("20 ticks of {period:?}: {:?}\n", start.elapsed());
    // Longer than `setTimeout` can wait: it must not be over at once.
    let far = time::sleep(Duration::from_secs(100 * 24 * 3_600));
    if time::timeout(Duration::from_millis(20), far).await.is_ok() {
        return Err("100 days are over".to_owned());
    }
    report += "a sleep of 100 days is not over\n";
    let (long, short) = (
        time::sleep(Duration::from_millis(30)),
        time::sleep(Duration::from_millis(5)),
    );
    let start = Instant::now();
    short.await;
    let between = start.elapsed();
    long.await;
    if between < Duration::from_millis(5) || start.elapsed() < Duration::from_millis(30) {
        return Err("one of two was early".to_owned());
    }
    report += "two sleeps end one after the other\n";
    Ok(report)
}
