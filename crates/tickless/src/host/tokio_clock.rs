//! The clock of the tokio runtime that polls on this thread, if that clock is paused or shifted.

#[cfg(not(feature = "tokio-test-util"))]
use std::io::{Write, stderr};
#[cfg(not(feature = "tokio-test-util"))]
use std::sync::Once;
use std::time::Instant as StdInstant;

use tickless_core::time::Instant;

use super::clock::CLOCK;

/// Returns the time of the runtime's clock, if it differs from the kernel's clock at the same moment.
///
/// tokio does not say whether its clock is paused. A reading of a clock that runs like the kernel's is between two
/// readings of the kernel's clock.
pub(super) fn shown() -> Option<Instant> {
    let _runtime = tokio::runtime::Handle::try_current().ok()?;
    let before = StdInstant::now();
    let shown = tokio::time::Instant::now().into_std();
    let runs = before <= shown && shown <= StdInstant::now();
    (!runs).then(|| CLOCK.anchor().core_of(shown))
}

/// Reports, once for the process, that timers wait in real time on the thread of a paused tokio runtime.
///
/// With the feature `tokio-test-util` each reading of the clock notices a pause, and sleeps that wait follow it.
#[cfg(not(feature = "tokio-test-util"))]
#[cold]
pub(super) fn report_unfollowed() {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        // Not by `eprintln!`, which panics if the stream is closed, and which a test harness keeps until the test ends.
        let _written = writeln!(
            stderr(),
            "tickless: tokio's clock is paused, and timers that this thread started wait in real time; the feature \
             `tokio-test-util` of the crate `tickless`, in [dev-dependencies], makes them follow tokio's clock"
        );
    });
}
