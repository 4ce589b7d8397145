//! The clock of the tokio runtime that polls on this thread, if it is paused or shifted.

use std::time::Instant as StdInstant;

use tickless_core::time::Instant;

use super::clock::CLOCK;

/// Returns the clock of the runtime, if it differs from the kernel's at the same time.
///
/// tokio does not say whether its clock is paused. One that runs as the kernel's is between two readings of that.
pub(super) fn shown() -> Option<Instant> {
    let _runtime = tokio::runtime::Handle::try_current().ok()?;
    let before = StdInstant::now();
    let shown = tokio::time::Instant::now().into_std();
    let runs = before <= shown && shown <= StdInstant::now();
    (!runs).then(|| CLOCK.anchor().core_of(shown))
}
