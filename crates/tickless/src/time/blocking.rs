//! Waits that block a plain thread, exact to the nanosecond.
//!
//! The functions are for threads without an event loop: a tool, a control loop, a test. They queue no timer and involve
//! no other thread. The thread sleeps in the kernel, which wakes it when the deadline is over.
//!
//! ```
//! use std::time::Duration;
//! use tickless::time::Instant;
//! use tickless::time::blocking::sleep_until;
//!
//! let period = Duration::from_micros(200);
//! let mut next = Instant::now();
//! for _ in 0..5 {
//!     next += period;
//!     sleep_until(next);
//!     assert!(Instant::now() >= next);
//! }
//! ```
//!
//! # What is different from `std::thread::sleep`
//!
//! The first wait of a thread sets its timer slack to 1 ns, for good, as [`Worker::new`](crate::Worker::new) does: by
//! default the kernel wakes threads up to 50 µs late. Deadlines are absolute, so that a loop does not drift.
//!
//! # Limits and cost
//!
//! Each wait takes one system call, or none if the deadline is over. A signal does not end a wait. The thread waits in
//! real time, even if the clock is [paused](super::pause). In a task a wait blocks the other tasks of the thread, and
//! in a callback it blocks the other timers: use [`sleep`](fn@super::sleep) there. A wait on the thread of a
//! [`Worker`](crate::Worker) delays the worker's own timers too, because [`park`](crate::Worker::park) runs them.

use std::time::Duration;

use super::Instant;
use crate::host::{pause, thread};

/// Blocks the thread for `duration`, counted from this call. Zero returns at once; a duration of more than 292 years
/// never ends.
///
/// The call never returns early, by [`std::time::Instant`] and by [`Instant`].
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// tickless::time::blocking::sleep(Duration::from_micros(50));
/// assert!(start.elapsed() >= Duration::from_micros(50));
/// ```
pub fn sleep(duration: Duration) {
    if !duration.is_zero() {
        pause::until(thread::now_upper().saturating_add(duration.into()));
    }
}

/// Blocks the thread until `deadline`. Returns at once if the deadline is over.
///
/// The call never returns early, by [`std::time::Instant`] and by [`Instant`].
pub fn sleep_until(deadline: Instant) {
    pause::until(deadline.to_core());
}
