//! The Periodic Transmission machine (clause 6.4.13, figure 6-19), which sends the partner a sign of life.
//!
//! Each period counts from the deadline before it, not from the moment at which the host came: a timer with slack fires
//! late, but the rate stays.

use tickless_core::time::{Instant, Span};

use super::pdu::PortState;
use super::port::Port;
use super::timers::{FAST_PERIODIC_TIME, SLOW_PERIODIC_TIME, TimerKind};

/// The states of the Periodic Transmission machine. PERIODIC_TX, which is left at once, is the transition between the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodicState {
    /// The port sends no periodic LACPDUs: it is not enabled, or neither end is active.
    NoPeriodic,
    /// Each second, because the partner gives up after three.
    FastPeriodic,
    /// Each 30 s.
    SlowPeriodic,
}

impl PeriodicState {
    const fn period(self) -> Option<Span> {
        match self {
            Self::NoPeriodic => None,
            Self::FastPeriodic => Some(FAST_PERIODIC_TIME),
            Self::SlowPeriodic => Some(SLOW_PERIODIC_TIME),
        }
    }
}

impl Port {
    /// Makes at most one transition; says whether it did.
    pub(super) fn step_periodic(&mut self, now: Instant) -> bool {
        let expired = self.timers.take_expired(TimerKind::Periodic);
        let wanted = self.wanted_period();
        let from = match (self.periodic, wanted) {
            (PeriodicState::NoPeriodic, PeriodicState::NoPeriodic) => return false,
            (_, PeriodicState::NoPeriodic) => {
                self.periodic = PeriodicState::NoPeriodic;
                self.timers.stop(TimerKind::Periodic);
                return true;
            }
            // The partner wants to hear more from now on, so it hears something now.
            (PeriodicState::SlowPeriodic, PeriodicState::FastPeriodic) => {
                self.need_to_transmit = true;
                now
            }
            (old, _) => match expired {
                Some(deadline) => {
                    self.need_to_transmit = true;
                    deadline
                }
                None if old == wanted => return false,
                None => now,
            },
        };
        self.periodic = wanted;
        self.start_period(from, now);
        true
    }

    fn wanted_period(&self) -> PeriodicState {
        let is_anybody_active = self.actor.state.has(PortState::ACTIVITY)
            || self.partner.state.has(PortState::ACTIVITY);
        if !self.enabled || !self.lacp_enabled || !is_anybody_active {
            PeriodicState::NoPeriodic
        } else if self.partner.state.has(PortState::TIMEOUT) {
            PeriodicState::FastPeriodic
        } else {
            PeriodicState::SlowPeriodic
        }
    }

    fn start_period(&mut self, from: Instant, now: Instant) {
        let Some(period) = self.periodic.period() else {
            return;
        };
        let mut next = from.saturating_add(period);
        if next <= now {
            // Rounded down: whole periods.
            let missed = now.saturating_since(from).as_nanos() / period.as_nanos();
            self.counters.periods_missed += missed;
            next = now.saturating_add(period);
        }
        self.timers.start(TimerKind::Periodic, next);
    }
}
