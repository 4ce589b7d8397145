//! Timers of FreeBSD and NetBSD: `kqueue` timers in nanoseconds.
//!
//! As kqueue(2) says: `NOTE_NSECONDS` is the unit of a timer's data. `NOTE_ABSTIME` would make the data a time of day,
//! which can be set, so a timer is set to a length of time. NetBSD before 10 has no `EVFILT_USER` and refuses the bell;
//! the host then uses condition variables, as without this file.

use std::time::Duration;

/// The longest time for which a timer is set, in nanoseconds: a year. For a later deadline the timer is set again then.
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
