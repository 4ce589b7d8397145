//! Pauses of a thread that polls.

use std::time::Duration;

use super::sys::threads::nap;

/// The number of polls before the thread yields its time.
const YIELDS_FROM: u32 = 50;
/// The number of polls before the thread sleeps; a yield does not let a thread of lower real-time priority run.
const SLEEPS_FROM: u32 = 200;

/// Pauses a thread that polls for the `attempt`-th time.
pub(crate) fn relax(attempt: u32) {
    if attempt < YIELDS_FROM {
        std::hint::spin_loop();
    } else if attempt < SLEEPS_FROM {
        std::thread::yield_now();
    } else {
        nap(Duration::from_micros(50));
    }
}
