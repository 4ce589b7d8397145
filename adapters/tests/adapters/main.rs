//! Each adapter against the crate that it is for.
//!
//! None of these tests knows how long something takes at most; that no wait is early is what they ask, and that each
//! ends.

mod counters;
mod embassy;
mod examples;
mod hal;
mod http;
mod network;
mod small;
mod telemetry;
mod tower;

use std::future::Future;
use std::time::Duration;

/// The time that the tests wait for: long enough to be no accident.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs `future` in a tokio runtime that has no timers, so that none of them can be tokio's.
fn without_timers_of_tokio<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(future)
}
