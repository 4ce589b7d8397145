//! The hardware, and a stand-in for it.

use std::collections::VecDeque;

use tickless_core::time::{Instant, Span};

use crate::sync::{Mutex, lock};

/// The largest time that the hardware can count, in microseconds: 24 bits.
pub(super) const TIMES_MAX: u32 = (1 << 24) - 1;

/// The counts of the hardware since they were read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCounters {
    /// Entries of the transmitter into LPI.
    pub tx_transitions: u16,
    /// Entries of the partner's transmitter.
    pub rx_transitions: u16,
    /// Microseconds of the transmitter in LPI, 24 bits.
    pub tx_time_us: u32,
    /// Microseconds of the partner's, 24 bits.
    pub rx_time_us: u32,
}

/// A MAC that can be put into LPI.
pub trait Mac: Send + Sync + 'static {
    /// Writes the LPI bit: `true` makes the transmitter sleep, and nothing can be transmitted until it is `false` again
    /// and the wake time is over.
    ///
    /// Called only when the bit changes, one call at a time. MUST NOT call the port.
    fn set_lpi(&self, lpi: bool, now: Instant);

    /// Starts the transmission of what is in `queue`. The bit is clear.
    fn start_transmission(&self, queue: usize, now: Instant);

    /// Reads and clears the counters.
    fn take_counters(&self, now: Instant) -> RawCounters;
}

/// A moment at which the LPI bit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The time at which the bit changed.
    pub at: Instant,
    /// True if the transmitter sleeps from then on.
    pub lpi: bool,
}

/// A MAC made of memory, which counts what must not happen.
#[derive(Debug)]
pub struct VirtualMac {
    wake_time: Span,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    transmit: Sleeper,
    receive: Sleeper,
    /// The time from which on the transmitter can send.
    ready_at: Instant,
    writes: u64,
    transmissions: u64,
    violations: u64,
    transitions: VecDeque<Transition>,
}

/// One direction of the hardware.
#[derive(Debug, Default)]
struct Sleeper {
    asleep_since: Option<Instant>,
    transitions: u16,
    /// Not yet read, to the nanosecond, so that no fraction of a microsecond is lost between two readings.
    slept_ns: u64,
}

impl Sleeper {
    fn set(&mut self, lpi: bool, now: Instant) {
        self.count_until(now);
        if lpi && self.asleep_since.is_none() {
            self.transitions = self.transitions.saturating_add(1);
        }
        self.asleep_since = lpi.then_some(now);
    }

    fn count_until(&mut self, now: Instant) {
        if let Some(since) = self.asleep_since.as_mut() {
            self.slept_ns += now.saturating_since(*since).as_nanos();
            *since = now.max(*since);
        }
    }

    /// The counters stick at their ends.
    fn take(&mut self, now: Instant) -> (u16, u32) {
        self.count_until(now);
        // Rounded down; the rest stays.
        let time_us = u32::try_from(self.slept_ns / 1_000).unwrap_or(u32::MAX);
        self.slept_ns %= 1_000;
        (
            std::mem::take(&mut self.transitions),
            time_us.min(TIMES_MAX),
        )
    }
}

impl VirtualMac {
    /// The number of transitions that are remembered: the last ones.
    pub const TRANSITIONS_MAX: usize = 1024;

    /// A MAC that is awake, and cannot send for `wake_time` after it was woken.
    #[must_use]
    pub fn new(wake_time: Span) -> Self {
        Self {
            wake_time,
            state: Mutex::new(State {
                transmit: Sleeper::default(),
                receive: Sleeper::default(),
                ready_at: Instant::ZERO,
                writes: 0,
                transmissions: 0,
                violations: 0,
                transitions: VecDeque::new(),
            }),
        }
    }

    /// Lets the partner's transmitter sleep, or wakes it.
    pub fn set_partner_lpi(&self, lpi: bool, now: Instant) {
        lock(&self.state).receive.set(lpi, now);
    }

    /// Returns true if the transmitter sleeps.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        lock(&self.state).transmit.asleep_since.is_some()
    }

    /// Writes of the bit.
    #[must_use]
    pub fn writes(&self) -> u64 {
        lock(&self.state).writes
    }

    /// Transmissions that were started.
    #[must_use]
    pub fn transmissions(&self) -> u64 {
        lock(&self.state).transmissions
    }

    /// Transmissions that were started in LPI or within the wake time, and writes that changed nothing.
    #[must_use]
    pub fn violations(&self) -> u64 {
        lock(&self.state).violations
    }

    /// Returns the changes of the LPI bit before now, at most the last [`TRANSITIONS_MAX`](Self::TRANSITIONS_MAX).
    #[must_use]
    pub fn transitions(&self) -> Vec<Transition> {
        lock(&self.state).transitions.iter().copied().collect()
    }
}

impl Mac for VirtualMac {
    fn set_lpi(&self, lpi: bool, now: Instant) {
        let mut state = lock(&self.state);
        state.writes += 1;
        if state.transmit.asleep_since.is_some() == lpi {
            state.violations += 1;
        }
        state.transmit.set(lpi, now);
        if !lpi {
            state.ready_at = now.saturating_add(self.wake_time);
        }
        if state.transitions.len() == Self::TRANSITIONS_MAX {
            state.transitions.pop_front();
        }
        state.transitions.push_back(Transition { at: now, lpi });
    }

    fn start_transmission(&self, _queue: usize, now: Instant) {
        let mut state = lock(&self.state);
        state.transmissions += 1;
        if state.transmit.asleep_since.is_some() || now < state.ready_at {
            state.violations += 1;
        }
    }

    fn take_counters(&self, now: Instant) -> RawCounters {
        let mut state = lock(&self.state);
        let (tx_transitions, tx_time_us) = state.transmit.take(now);
        let (rx_transitions, rx_time_us) = state.receive.take(now);
        RawCounters {
            tx_transitions,
            rx_transitions,
            tx_time_us,
            rx_time_us,
        }
    }
}
