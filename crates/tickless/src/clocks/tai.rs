//! International atomic time: the time of day without leap seconds.
//!
//! `CLOCK_TAI` advances by one second each second, even when the time of day repeats a second. It is set together with
//! the time of day. Its distance from the time of day (37 s since 2017) is the value that a time daemon gave to the
//! kernel, and zero if no daemon did: check [`offset_from_utc`] before you rely on it.
//!
//! ```
//! use std::time::Duration;
//! use tickless::tai;
//!
//! # futures::executor::block_on(async {
//! let start = tai::Instant::now();
//! tai::sleep_until(start + Duration::from_millis(1)).await;
//! assert!(tai::Instant::now() >= start + Duration::from_millis(1));
//! # });
//! ```
//!
//! A sleep follows sets of its clock as a sleep on the [time of day](crate::realtime) with
//! [`OnSet::Follow`](crate::realtime::OnSet::Follow) does. For callbacks, use [`hrtimer`](crate::hrtimer) with [`Tai`].

pub use std::time::Duration;

use tickless_core::time::{Realtime, Tai};

use super::boottime::ClockSleep;
use super::point::Point;
use crate::host::registry::timers;

/// A point on the clock of international atomic time: the time of day since 1970, plus [`offset_from_utc`].
pub type Instant = Point<Tai>;

/// The future that [`sleep`] and [`sleep_until`] return.
pub type Sleep = ClockSleep<Tai>;

/// Waits until the clock has advanced by `duration` from now.
///
/// # Cancellation
///
/// Dropping the future cancels it.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Waits until `deadline`. The future is ready at once if the deadline has passed.
///
/// # Cancellation
///
/// Dropping the future cancels it.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(deadline)
}

/// Returns the number of seconds by which this clock is ahead of the time of day, as the kernel has it: 37 in 2026, or
/// 0 if no daemon has set it.
///
/// # Cost
///
/// Two readings of clocks, without a system call where the kernel's vDSO serves them.
#[must_use]
pub fn offset_from_utc() -> i64 {
    let wall = &timers().platform().wall;
    let (tai, realtime) = (wall.show::<Tai>(), wall.show::<Realtime>());
    let nanos = tai.as_nanos().saturating_sub(realtime.as_nanos());
    // To the nearest: the two clocks were asked for one after the other.
    nanos.saturating_add(500_000_000).div_euclid(1_000_000_000)
}
