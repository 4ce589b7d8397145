//! Canaries: machines that break one promise on purpose, to prove that the checker of that promise notices.

use tickless_core::time::{Instant, Span};

use crate::model::time::Picos;
use crate::promise::Promise;

/// A machine that breaks this promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary(pub Promise);

/// The time by which a clock is ahead, so that timers fire early.
const AHEAD: Span = Span::from_millis(3);
/// The nanoseconds by which a clock goes back.
const BACK: i64 = 5_000;
/// The CPU whose device is dead.
const DEAD: u32 = 1;

impl Canary {
    pub(crate) fn breaks(self, promise: Promise) -> bool {
        self.0 == promise
    }

    /// Returns the time that the clock shows instead of `right`.
    pub(crate) fn clock(self, right: Instant) -> Instant {
        match self.0 {
            Promise::NeverEarly => right.saturating_add(AHEAD),
            Promise::Monotonic if right.as_nanos() / 1_000 % 7 == 0 => {
                Instant::from_nanos(right.as_nanos().saturating_sub(BACK))
            }
            _ => right,
        }
    }

    /// Returns the time at which a device fires that was written to fire at `right`.
    pub(crate) fn device(self, right: Picos) -> Picos {
        match self.0 {
            Promise::BoundedLate => right + Picos::from_millis(20),
            Promise::ArmedNotLaterThanFirst => right + Picos::from_millis(3),
            _ => right,
        }
    }

    /// Returns true if the device of `cpu` drops its writes.
    pub(crate) fn loses_write(self, cpu: u32) -> bool {
        self.0 == Promise::NeverLost && cpu == DEAD
    }
}

/// Returns another number at each call, for a canary whose runs differ although the seed is the same.
pub(crate) fn whim() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static WHIMS: AtomicU64 = AtomicU64::new(0);
    // Relaxed: any number will do that was not there before.
    WHIMS.fetch_add(1, Ordering::Relaxed)
}
