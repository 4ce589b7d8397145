//! Counters that the hardware clears when they are read, as counters that only grow.

use tickless_core::time::Span;

use super::mac::{RawCounters, TIMES_MAX};
use crate::sync::{Mutex, lock};

/// The longest interval between two readings of the counters: 16.777215 s, after which the 24 bits of a time in
/// microseconds overflow.
pub const POLL_INTERVAL_MAX: Span = Span::from_micros(TIMES_MAX as u64);

/// The counts of one direction since the port was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Entries into LPI.
    pub transitions: u64,
    /// Time in LPI.
    pub time: Span,
}

/// The counts of both directions since the port was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// This end's transmitter.
    pub transmit: Direction,
    /// The partner's transmitter, as seen by this end's receiver.
    pub receive: Direction,
}

impl Direction {
    fn add(&mut self, transitions: u16, time_us: u32) {
        // 2^64 transitions, or 292 years.
        self.transitions = self.transitions.saturating_add(transitions.into());
        self.time = self.time.saturating_add(Span::from_micros(time_us.into()));
    }
}

/// Sums of everything that was read.
pub(super) struct Totals {
    sums: Mutex<Counters>,
}

impl Totals {
    pub(super) fn new() -> Self {
        Self {
            sums: Mutex::new(Counters::default()),
        }
    }

    /// Reads the hardware with `read`, and adds that up: one critical section, so that what one reader took away is in
    /// the sums before another one looks at them.
    pub(super) fn poll(&self, read: impl FnOnce() -> RawCounters) -> Counters {
        let mut sums = lock(&self.sums);
        let raw = read();
        sums.transmit.add(raw.tx_transitions, raw.tx_time_us);
        sums.receive.add(raw.rx_transitions, raw.rx_time_us);
        *sums
    }
}
