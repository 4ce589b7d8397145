//! The kernel's monotonic clock on the timeline of the library, and the conversion of deadlines to the times that the
//! kernel accepts.
//!
//! The library's timeline continues where the kernel's clock jumps: the child of a fork may be in another *time
//! namespace*, whose monotonic clock is ahead or behind by hours. The deadlines of all queued timers are on the
//! timeline of the parent, so that timeline continues in the child. Its distance from the kernel's clock ([`shift`]) is
//! added to readings and subtracted from deadlines.
//!
//! The C library's clock may also be a different clock: libraries like libfaketime replace the C library's
//! `clock_gettime`, and the kernel does not see the replacement. If the C library and the kernel disagree ([`Source`]),
//! the library follows the C library's clock, as the program does, and passes durations to the kernel in place of
//! deadlines. A wait that ends early by the C library's clock is repeated: waits poll the clock, and a turn that finds
//! nothing due sets its device again.
//!
//! # Ground rules
//!
//! - Only this module handles times on the kernel's own clock.
//! - [`SHIFT`] is written in the child of a fork, before the child has a second thread. All accesses are Relaxed.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

use tickless_core::time::{Clock, Instant};

use super::sys::Until;
use super::sys::clocks::{monotonic, monotonic_by_call, show};

/// The least distance of the clocks after a fork that counts as another namespace, in nanoseconds. It is far longer
/// than a reading of two clocks takes.
const APART_MIN: i64 = 1_000_000;

/// The distance of the timeline ahead of the kernel's clock, in nanoseconds.
static SHIFT: AtomicI64 = AtomicI64::new(0);
/// The distance of the monotonic clock ahead of the time of day before the last fork, in nanoseconds. If two threads
/// fork at once, the value of either thread serves both.
static BEFORE_FORK: AtomicI64 = AtomicI64::new(0);
/// True if the last fork shifted the timeline against the kernel's clock.
static IS_NEW_SHIFT: AtomicBool = AtomicBool::new(false);
/// The clock that the C library reads, as a [`Source`].
static SOURCE: AtomicU8 = AtomicU8::new(Source::Unknown as u8);

/// The clock that the C library reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Source {
    Unknown,
    /// The kernel's clock.
    Kernel,
    /// Another clock, by which the kernel does not measure deadlines.
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

/// Returns a deadline in the form that the kernel accepts.
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

/// Returns a bound of the distance of the monotonic clock ahead of the time of day: the upper bound if `is_upper`, else
/// the lower bound.
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

/// Makes the timeline continue in the child of a fork, also if the child is in another time namespace. Returns the
/// distance by which the timeline was shifted against the kernel's clock.
///
/// The time of day is the same in all namespaces, so the distance to it shows how far the monotonic clock jumped. If
/// the time of day is set in the middle of a fork, the set counts as such a jump, and queued timers are early or late
/// by it. The timeline is behind by the duration of the clock readings, so that no timer is early.
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

/// Returns whether the last fork shifted the timeline, so that other clocks have other times on it.
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
