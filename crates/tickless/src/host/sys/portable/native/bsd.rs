//! FreeBSD and NetBSD: `kqueue` timers in nanoseconds.
//!
//! As kqueue(2) says: `NOTE_NSECONDS` is the unit of a timer's data. `NOTE_ABSTIME` would make it a time of the day,
//! which can be set, so a timer is told its length. NetBSD before 10 has no `EVFILT_USER` and refuses the bell:
//! condition variables serve there, as without this file.

use std::time::Duration;

/// Longest time that a timer is set for, in nanoseconds: a year. What is later is asked for again then.
const LONGEST: i64 = 365 * 24 * 3600 * 1_000_000_000;

/// Sets the length of a timer: it fires in `left` nanoseconds.
pub(super) fn set_length(event: &mut libc::kevent, left: u64) {
    event.fflags = libc::NOTE_NSECONDS;
    event.data = i64::try_from(left).unwrap_or(i64::MAX).min(LONGEST);
}

/// Sleeps for `time`.
pub(crate) fn nap(time: Duration) {
    std::thread::sleep(time);
}
