//! Waiting until a word changes, by futexes.

use std::num::NonZeroU32;

use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait as futex_wait, wait_bitset, wake};
use tickless_link::sync::AtomicU32;

use super::clocks::timespec;
use crate::host::sys::{Until, Waited};

/// Waits while `word` is `expected`, until another thread [wakes](wake_one) this thread or the time is over.
#[inline]
pub(crate) fn wait(word: &AtomicU32, expected: u32, until: Until) -> Waited {
    let result = match until {
        Until::Never => wait_bitset(word, Flags::PRIVATE, expected, None, NonZeroU32::MAX),
        Until::At(nanos) => {
            let deadline = timespec(nanos);
            let deadline = Some(&deadline);
            wait_bitset(word, Flags::PRIVATE, expected, deadline, NonZeroU32::MAX)
        }
        Until::In(nanos) => futex_wait(word, Flags::PRIVATE, expected, Some(&timespec(nanos))),
    };
    match result {
        Ok(()) | Err(Errno::INTR | Errno::AGAIN) => Waited::Again,
        Err(Errno::TIMEDOUT) => Waited::Over,
        Err(_) => Waited::Refused,
    }
}

/// Wakes a thread that waits for `word`.
#[inline]
pub(crate) fn wake_one(word: &AtomicU32) {
    let _count = wake(word, Flags::PRIVATE, 1);
}
