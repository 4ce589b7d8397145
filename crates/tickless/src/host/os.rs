//! Pauses of a thread that polls.

use std::time::Duration;

use super::sys::threads::nap;

/// Polls before the thread gives its time away.
const YIELDS_FROM: u32 = 50;
/// Polls before the thread sleeps: a yield does not let a thread of lower real-time priority run.
const SLEEPS_FROM: u32 = 200;

/// Passes the time of a thread that polls for the `attempt`-th time.
pub(crate) fn relax(attempt: u32) {
    if attempt < YIELDS_FROM {
        std::hint::spin_loop();
    } else if attempt < SLEEPS_FROM {
        std::thread::yield_now();
    } else {
        nap(Duration::from_micros(50));
    }
}

/// Relaxes as [`relax`] does, for a thread that has polled in vain for a while.
pub(super) fn relax_by_yielding() {
    relax(YIELDS_FROM);
}
