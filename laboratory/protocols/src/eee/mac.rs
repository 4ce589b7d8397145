//! The interface of the hardware, and a MAC that exists in memory only.

use std::sync::Mutex;

use tickless_core::time::{Instant, Span};

use crate::lock;

/// A MAC that can be put into LPI.
pub trait Mac: Send + Sync + 'static {
    /// Writes the LPI bit: `true` makes the transmitter sleep, and nothing can be transmitted until the bit is `false`
    /// again and the wake time is over.
    ///
    /// The port calls it only when the bit changes, one call at a time. It MUST NOT call the port.
    fn set_lpi(&self, lpi: bool, now: Instant);

    /// Starts the transmission of the packets in `queue`. The LPI bit is clear.
    fn start_transmission(&self, queue: usize, now: Instant);
}

/// A change of the LPI bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The time at which the bit changed.
    pub at: Instant,
    /// True if the transmitter sleeps from then on.
    pub lpi: bool,
}

/// A MAC that exists in memory only. It records all writes of the LPI bit and counts violations of the rules.
#[derive(Debug)]
pub struct VirtualMac {
    wake_time: Span,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_asleep: bool,
    /// The time from which on the transmitter can send.
    ready_at: Instant,
    transmissions: u64,
    violations: u64,
    transitions: Vec<Transition>,
}

impl VirtualMac {
    /// Makes a MAC that is awake, and cannot send for `wake_time` after it was woken.
    #[must_use]
    pub fn new(wake_time: Span) -> Self {
        Self {
            wake_time,
            state: Mutex::new(State {
                is_asleep: false,
                ready_at: Instant::ZERO,
                transmissions: 0,
                violations: 0,
                transitions: Vec::new(),
            }),
        }
    }

    /// Returns true if the transmitter sleeps.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        lock(&self.state).is_asleep
    }

    /// Returns the number of transmissions that were started.
    #[must_use]
    pub fn transmissions(&self) -> u64 {
        lock(&self.state).transmissions
    }

    /// Returns the number of violations: transmissions that were started in LPI or within the wake time, and writes
    /// that changed nothing.
    #[must_use]
    pub fn violations(&self) -> u64 {
        lock(&self.state).violations
    }

    /// Returns the writes of the LPI bit before now.
    #[must_use]
    pub fn transitions(&self) -> Vec<Transition> {
        lock(&self.state).transitions.clone()
    }
}

impl Mac for VirtualMac {
    fn set_lpi(&self, lpi: bool, now: Instant) {
        let mut state = lock(&self.state);
        state.violations += u64::from(state.is_asleep == lpi);
        state.is_asleep = lpi;
        if !lpi {
            state.ready_at = now.saturating_add(self.wake_time);
        }
        state.transitions.push(Transition { at: now, lpi });
    }

    fn start_transmission(&self, _queue: usize, now: Instant) {
        let mut state = lock(&self.state);
        state.transmissions += 1;
        state.violations += u64::from(state.is_asleep || now < state.ready_at);
    }
}
