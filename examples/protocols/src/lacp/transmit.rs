//! The Transmit machine (clause 6.4.16): at most three LACPDUs in any second.

use tickless_core::time::Instant;

use super::pdu::Lacpdu;
use super::periodic::PeriodicState;
use super::port::Port;
use super::timers::{FAST_PERIODIC_TIME, TimerKind};

/// The number of LACPDUs that may be sent in a `Fast_Periodic_Time`.
const BURST_MAX: usize = 3;

/// The times at which the last LACPDUs were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    sent: [Option<Instant>; BURST_MAX],
    oldest: usize,
}

impl Window {
    /// Returns the time from which on the next one may be sent; `None` if at any time.
    fn opens(&self) -> Option<Instant> {
        self.sent[self.oldest].map(|sent| sent.saturating_add(FAST_PERIODIC_TIME))
    }

    fn note(&mut self, now: Instant) {
        self.sent[self.oldest] = Some(now);
        self.oldest = (self.oldest + 1) % BURST_MAX;
    }
}

impl Port {
    /// Returns the LACPDU to send now, if the port has to send one and may.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<Lacpdu> {
        let _ = self.timers.take_expired(TimerKind::Transmit);
        // Neither is anything kept for later: a link that comes up begins with its first period.
        if self.periodic == PeriodicState::NoPeriodic {
            self.need_to_transmit = false;
            self.timers.stop(TimerKind::Transmit);
            return None;
        }
        if !self.need_to_transmit {
            return None;
        }
        if let Some(opens) = self.window.opens().filter(|opens| *opens > now) {
            if self.timers.deadline(TimerKind::Transmit).is_none() {
                self.timers.start(TimerKind::Transmit, opens);
            }
            return None;
        }
        self.need_to_transmit = false;
        self.window.note(now);
        self.counters.sent += 1;
        Some(self.pdu())
    }
}
