//! The kernel's monotonic clock on the timeline of the library, and times as the kernel takes them.
//!
//! The library counts on where the kernel's clock does not: the child of a fork may be in another *time namespace*,
//! whose monotonic clock is ahead or behind by hours. All queued timers have deadlines of the timeline before, so the
//! timeline goes on, and its distance from the kernel's clock ([`shift`]) is added to readings and taken off deadlines.
//!
//! The clock that is read may be another one altogether: libraries such as libfaketime stand in for the C library's
//! `clock_gettime`, and the kernel knows nothing of it. Where the C library and the kernel disagree ([`Source`]) the
//! library follows the C library's clock, as the program does, and tells the kernel how long to wait in place of until
//! when. A wait that is over early by the clock that is read is repeated: waits poll the clock, and a turn that finds
//! nothing due sets its device again.
//!
//! # Ground rules
//!
//! - Times on the kernel's own clock are in this module alone.
//! - [`SHIFT`] is written in the child of a fork, before there is a second thread. All accesses are Relaxed.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

use tickless_core::time::{Clock, Instant};

use super::sys::Until;
use super::sys::clocks::{monotonic, monotonic_by_call, show};

/// Distance that the clocks must have after a fork to be another namespace, in nanoseconds: far more than it takes to
/// read two of them.
const APART_MIN: i64 = 1_000_000;

/// Distance of the timeline ahead of the kernel's clock, in nanoseconds.
static SHIFT: AtomicI64 = AtomicI64::new(0);
/// Distance of the monotonic clock ahead of the time of day before the last fork, in nanoseconds. Of two threads that
/// fork at once either value serves both.
static BEFORE_FORK: AtomicI64 = AtomicI64::new(0);
/// The timeline and the kernel's clock parted at the last fork.
static IS_NEW_SHIFT: AtomicBool = AtomicBool::new(false);
/// The [`Source`].
static SOURCE: AtomicU8 = AtomicU8::new(Source::Unknown as u8);

/// Clock that the C library reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Source {
    Unknown,
    /// The kernel's.
    Kernel,
    /// Another one, which is not that of deadlines.
    Other,
}

/// Returns the monotonic clock on the timeline of the library, in nanoseconds.
#[inline]
pub(crate) fn now() -> i64 {
    monotonic() + shift()
}

#[inline]
fn shift() -> i64 {
    // Relaxed: see *Ground rules*.
    SHIFT.load(Ordering::Relaxed)
}

/// A deadline as the kernel takes it.
#[inline]
pub(crate) fn until(deadline: Instant) -> Until {
    if deadline.is_forever() {
        return Until::Never;
    }
    // Relaxed: the word stands alone, and does not change once it is known.
    if SOURCE.load(Ordering::Relaxed) != Source::Kernel as u8 && source() == Source::Other {
        let left = deadline.as_nanos().saturating_sub(now());
        return Until::In(left.max(1));
    }
    Until::At(deadline.as_nanos().saturating_sub(shift()).max(1))
}

/// Finds out which clock the C library reads.
#[cold]
fn source() -> Source {
    if SOURCE.load(Ordering::Relaxed) == Source::Other as u8 {
        return Source::Other;
    }
    // Readings of one clock are in order, even if the thread is interrupted in between.
    let is_in_order = (monotonic(), monotonic_by_call(), monotonic());
    let found = match is_in_order {
        (before, Some(kernel), behind) if !(before..=behind).contains(&kernel) => Source::Other,
        // A filter of system calls may refuse it.
        _ => Source::Kernel,
    };
    SOURCE.store(found as u8, Ordering::Relaxed);
    found
}

/// Returns the distance of the monotonic clock ahead of the time of day: its lower bound, or its upper one.
fn ahead(is_upper: bool) -> i64 {
    let nanos = |clock| show(clock).unwrap_or(0);
    let mut best = (i64::MAX, 0);
    for _ in 0..5 {
        let before = nanos(Clock::Monotonic);
        let day = nanos(Clock::Realtime);
        let behind = nanos(Clock::Monotonic);
        let bound = if is_upper { behind } else { before };
        if behind - before < best.0 {
            best = (behind - before, bound - day);
        }
    }
    best.1
}

/// Prepares for a fork, in the thread that forks.
pub(super) fn before_fork() {
    BEFORE_FORK.store(ahead(false), Ordering::Relaxed);
}

/// Lets the timeline go on in the child of a fork, also if the child is in another time namespace. Returns the distance
/// that it was shifted by against the kernel's clock.
///
/// The time of day is the same in all namespaces, and tells how far the monotonic clock jumped. A set of the time of
/// day in the middle of a fork is taken for one, and what is queued is early or late by it then. The timeline is behind
/// by what reading the clocks takes, so that nothing is early.
pub(super) fn after_fork() -> i64 {
    let jump = BEFORE_FORK.load(Ordering::Relaxed) - ahead(true);
    let is_new = jump.abs() > APART_MIN;
    IS_NEW_SHIFT.store(is_new, Ordering::Relaxed);
    if !is_new {
        return 0;
    }
    SHIFT.store(shift().saturating_add(jump), Ordering::Relaxed);
    jump
}

/// Returns whether the last fork shifted the timeline, so that other clocks are elsewhere on it.
pub(super) fn is_new_shift() -> bool {
    IS_NEW_SHIFT.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_none_or_one_or_more_nanoseconds() {
        assert_eq!(until(Instant::FOREVER), Until::Never);
        for due in [i64::MIN, -1, 0, 1] {
            assert_eq!(until(Instant::from_nanos(due)), Until::At(1));
        }
    }

    #[test]
    fn the_c_library_reads_the_clock_of_the_kernel() {
        assert_eq!(source(), Source::Kernel);
    }
}
