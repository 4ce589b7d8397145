//! The clock of the tokio runtime that polls on this thread, if that clock is paused or shifted.

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
