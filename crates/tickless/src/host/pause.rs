//! A thread that sleeps until a deadline, and does nothing else.
//!
//! It waits for a word that never changes. The system's clock and the library's differ by some nanoseconds, so the
//! thread looks at the clocks when the system has woken it, and sleeps again if one is behind. Where the system refuses
//! to let it wait the thread polls.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;

use tickless_core::time::Instant;

use super::sys::{Waited, threads, waiting};
use super::{kernel_time, os, thread};

thread_local! {
    static HAS_SLACK: Cell<bool> = const { Cell::new(true) };
}

/// Sleeps until no clock is before `deadline`.
pub(crate) fn until(deadline: Instant) {
    if thread::now_lower() >= deadline {
        return;
    }
    if HAS_SLACK.replace(false) {
        threads::remove_timer_slack();
    }
    let word = AtomicU32::new(0);
    let mut refusals = 0;
    while thread::now_lower() < deadline {
        if waiting::wait(&word, 0, kernel_time::until(deadline)) == Waited::Refused {
            os::relax(refusals);
            refusals += 1;
        }
    }
}
