//! A thread that sleeps until a deadline, and does nothing else.
//!
//! The thread waits for a word that never changes. The system's clock and the library's clock differ by some
//! nanoseconds. So the thread reads both clocks when the system has woken it, and sleeps again if one of them is before
//! the deadline. If the system refuses to let the thread wait, the thread polls.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;

use tickless_core::time::Instant;

use super::sys::{Waited, threads, waiting};
use super::{kernel_time, os, thread};

thread_local! {
    static HAS_SLACK: Cell<bool> = const { Cell::new(true) };
}

/// Sleeps until neither clock is before `deadline`.
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
