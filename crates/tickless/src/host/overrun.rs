//! The report on timers whose callback takes longer than the interval by which it moves the deadline ahead.
//!
//! The core paces such a timer, and records this in the report of a turn ([`Overrun`]). If the pacing lasts, this
//! module writes one line for each callback to standard error. It does not report a short time, because a loaded
//! machine keeps threads from their CPUs for a while, which is no fault of the program.

use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use tickless_core::base::Overrun;
use tickless_core::time::Span;

/// The time for which a timer is paced before this is reported.
const REPORT_AFTER: Span = Span::from_millis(1_000);

/// The largest number of callbacks that are reported.
const MOST: usize = 16;

/// The names of the callbacks that were reported, as their addresses, which are compared and never dereferenced.
static REPORTED: [AtomicPtr<u8>; MOST] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];

/// Reports a timer that is paced. The thread that takes the turn calls this function, without holding locks.
pub(super) fn report(overrun: &Overrun) {
    if overrun.lasts >= REPORT_AFTER && is_new(overrun.name) {
        // A closed stream is no reason to stop.
        let _written = writeln!(
            std::io::stderr(),
            "tickless: the callback of a timer takes longer than it moves its deadline on, so the timer is always due; \
             it is paced, so that its thread can do other work (`Stats::paced`): {}",
            overrun.name
        );
    }
}

/// Returns whether a name has not been reported yet, and records it as reported.
fn is_new(name: &'static str) -> bool {
    let name = name.as_ptr().cast_mut();
    for place in &REPORTED {
        // Relaxed, both: the address stands alone.
        match place.compare_exchange(ptr::null_mut(), name, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(known) if known == name => return false,
            Err(_) => {}
        }
    }
    false
}
