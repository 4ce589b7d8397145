//! The report on timers whose callback runs for longer than it moves the deadline ahead.
//!
//! The core paces such a timer, and says so in the report of a turn ([`Overrun`]). The program is told once for each
//! callback, by a line on standard error, when that lasts: a loaded machine keeps threads from their CPUs for a while,
//! which is no fault of the program.

use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use tickless_core::base::Overrun;
use tickless_core::time::Span;

/// Time that a timer is paced before that is reported.
const REPORT_AFTER: Span = Span::from_millis(1_000);

/// Callbacks that are reported at most.
const MOST: usize = 16;

/// The names of the callbacks that were reported, by their addresses: compared and never followed.
static REPORTED: [AtomicPtr<u8>; MOST] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];

/// Reports a timer that is paced. Called without locks, by the thread that takes the turn.
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

/// Returns whether a name was not reported yet, and is from here on.
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
