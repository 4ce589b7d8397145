//! The clocks of the standard library, in nanoseconds.
//!
//! The monotonic clock is [`std::time::Instant`], counted from its first reading in this process; the documentation of
//! `Instant` says whether it continues while the machine is suspended. The time of day is [`SystemTime`]. There are no
//! other clocks: the monotonic clock also stands for the clock that counts suspended time, and the time of day also
//! stands for atomic time. If the standard library has no clock, the clock of JavaScript is used.

use std::io;
#[cfg(not(event_host))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
#[cfg(not(event_host))]
use std::time::{Instant, SystemTime};

use tickless_core::time::Clock;

use crate::host::sys::Heard;

/// A length of time in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timespec {
    tv_sec: i64,
    tv_nsec: i64,
}

/// The first reading of the monotonic clock. It is more than zero, because zero is the time of timers that are due at
/// once.
const FIRST: i64 = 1_000_000_000;

/// Returns the time of the monotonic clock.
#[cfg(event_host)]
pub(crate) fn monotonic() -> i64 {
    super::events::since_start().saturating_add(FIRST)
}

/// Returns the time of the monotonic clock.
#[cfg(not(event_host))]
pub(crate) fn monotonic() -> i64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    nanos_of(start.elapsed()).saturating_add(FIRST)
}

/// Returns `None`, because there is only one way to read the clock.
pub(crate) fn monotonic_by_call() -> Option<i64> {
    None
}

/// Returns the time of `clock`.
pub(crate) fn show(clock: Clock) -> Option<i64> {
    Some(match clock {
        Clock::Monotonic | Clock::Boottime => monotonic(),
        Clock::Realtime | Clock::Tai => time_of_day(),
    })
}

#[cfg(event_host)]
fn time_of_day() -> i64 {
    super::events::time_of_day()
}

#[cfg(not(event_host))]
fn time_of_day() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => nanos_of(since),
        Err(before) => -nanos_of(before.duration()),
    }
}

/// Returns `None`, because the time for which a thread executed is not known.
pub(crate) fn thread_executed() -> Option<i64> {
    None
}

/// The period in which the time of day is compared with the monotonic clock. A set is noticed late by up to this time.
const EVERY: Duration = Duration::from_millis(500);

/// The least change of the distance of the two clocks, in nanoseconds, that counts as a set. It is more than the
/// reading of both clocks takes, and more than a clock is steered between two checks.
const SET_MIN: u64 = 500_000;

/// A watch that notices when the time of day is set, or when the machine wakes from a suspend that the monotonic clock
/// does not count.
#[derive(Debug)]
pub(crate) struct Sets {
    /// The distance of the time of day ahead of the monotonic clock when a set was last reported. The thread that waits
    /// writes it.
    ahead: AtomicI64,
}

impl Sets {
    /// Starts to watch the clocks.
    #[expect(clippy::unnecessary_wraps, reason = "Linux may refuse")]
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self {
            ahead: AtomicI64::new(ahead()),
        })
    }

    /// Waits until the next check, and compares the clocks.
    pub(crate) fn wait(&self) -> Heard {
        std::thread::sleep(EVERY);
        self.compare(ahead())
    }

    fn compare(&self, now: i64) -> Heard {
        // Relaxed, both: one thread.
        if now.abs_diff(self.ahead.load(Ordering::Relaxed)) < SET_MIN {
            return Heard::Nothing;
        }
        self.ahead.store(now, Ordering::Relaxed);
        Heard::Set
    }
}

/// Returns the distance of the time of day ahead of the monotonic clock, by the closest of a few readings.
fn ahead() -> i64 {
    let mut best = (i64::MAX, 0);
    for _ in 0..5 {
        let before = monotonic();
        let day = time_of_day();
        let behind = monotonic();
        if behind - before < best.0 {
            best = (behind - before, day.saturating_sub(behind));
        }
    }
    best.1
}

/// Converts nanoseconds, which are zero or more, to a length of time.
pub(crate) const fn timespec(nanos: i64) -> Timespec {
    Timespec {
        tv_sec: nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    }
}

#[cfg(not(event_host))]
fn nanos_of(time: Duration) -> i64 {
    // Not by 128 bits: each reading of the clock comes here.
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_told_once() {
        let sets = Sets {
            ahead: AtomicI64::new(1_000),
        };
        let second = 1_000_000_000;
        assert_eq!(sets.compare(1_000 + 400_000), Heard::Nothing);
        assert_eq!(sets.compare(1_000 + second), Heard::Set);
        assert_eq!(sets.compare(1_000 + second), Heard::Nothing);
        assert_eq!(sets.compare(-second), Heard::Set);
    }

    /// Steering moves a clock by little between two checks, and far in the end.
    #[test]
    fn a_clock_that_is_steered_for_long_counts_as_set() {
        let sets = Sets {
            ahead: AtomicI64::new(0),
        };
        let told = (1..=20).filter(|look| sets.compare(look * 250_000) == Heard::Set);
        assert_eq!(told.count(), 10);
    }

    #[test]
    fn no_clock_goes_back() {
        let mut last = monotonic();
        assert!(last >= FIRST);
        for _ in 0..10_000 {
            let now = monotonic();
            assert!(now >= last);
            last = now;
        }
    }
}
