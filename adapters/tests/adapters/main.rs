//! Tests of each adapter with the crate for which the adapter is made.
//!
//! The tests check that no wait ends early and that each wait ends. No test checks how long a wait takes at most.

mod counters;
mod embassy;
mod examples;
mod hal;
mod http;
mod network;
mod small;
mod tower;

use std::future::Future;
use std::time::Duration;

/// The length of the waits in the tests: long enough that a test cannot pass by accident.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs `future` in a tokio runtime without timers, so that `future` cannot use timers of tokio.
fn without_timers_of_tokio<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(future)
}
