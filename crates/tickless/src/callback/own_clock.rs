//! The start of a timer with a closure on the clock of the calling thread, which may be a virtual clock.

use crate::host::wake;
#[cfg(feature = "worker")]
use crate::time::virtual_time;

/// Executes `start`, which starts a timer, on the clock of this thread. Makes sure that a thread expires the timer.
///
/// # Panics
///
/// When the thread has a virtual clock and no base is left for that clock.
#[inline]
pub(super) fn by_own_clock<R>(start: impl FnOnce() -> R) -> R {
    if wake::may_start_callback() {
        return start();
    }
    by_own_clock_slow(start)
}

#[cold]
fn by_own_clock_slow<R>(start: impl FnOnce() -> R) -> R {
    #[cfg(feature = "worker")]
    let start = if wake::is_virtual() {
        match virtual_time::start_callback(start) {
            Ok(started) => return started,
            Err(start) => start,
        }
    } else {
        start
    };
    wake::ensure_expiry_thread_for_callback();
    start()
}
