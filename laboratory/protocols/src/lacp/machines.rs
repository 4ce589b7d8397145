//! The transitions of a port's machines. Each step makes at most one transition, and returns true if it made one.

use tickless_core::time::{Instant, Span};

use super::port::{
    ChurnState, Lacpdu, MuxState, NO_PARTNER, PeriodicState, Port, ReceiveState, Selected,
};
use super::timers::{
    AGGREGATE_WAIT_TIME, CHURN_DETECTION_TIME, FAST_PERIODIC_TIME, LONG_TIMEOUT_TIME,
    SHORT_TIMEOUT_TIME, SLOW_PERIODIC_TIME, TimerKind,
};

/// The Receive machine, which decides the description of the partner that is in force, and the time for which it is in
/// force.
impl Port {
    pub(super) fn step_receive(&mut self, now: Instant) -> bool {
        let expired = self.timers.take_expired(TimerKind::CurrentWhile).is_some();
        match self.receive {
            ReceiveState::PortDisabled if self.enabled => self.enter_expired(now),
            ReceiveState::PortDisabled => return false,
            _ if !self.enabled => self.enter_port_disabled(),
            ReceiveState::Expired if expired => self.enter_defaulted(),
            ReceiveState::Current if expired => self.enter_expired(now),
            _ => return false,
        }
        true
    }

    /// Notes that the port received an LACPDU.
    pub(super) fn received(&mut self, pdu: &Lacpdu, now: Instant) {
        if !self.enabled || self.receive == ReceiveState::PortDisabled {
            return;
        }
        self.receive = ReceiveState::Current;
        if !self.partner.names_same_port(&pdu.actor) {
            self.selected = Selected::Unselected;
        }
        // The partner gets an LACPDU if its description of this end is out of date.
        self.need_to_transmit |= pdu.partner != self.actor;
        self.partner = pdu.actor;
        // Sync is believed of a partner that knows this end, and of an individual link, which needs none.
        self.partner.in_sync &= pdu.partner.names_same_port(&self.actor) || !pdu.actor.aggregation;
        let timeout = if self.actor.short_timeout {
            SHORT_TIMEOUT_TIME
        } else {
            LONG_TIMEOUT_TIME
        };
        // Each LACPDU pushes it out; it fires for none of them.
        let deadline = now.saturating_add(timeout);
        self.timers.start(TimerKind::CurrentWhile, deadline);
    }

    /// Forgets that the partner is in sync. The selection stays: a link that returns to the same partner disturbs no
    /// other link.
    pub(super) fn enter_port_disabled(&mut self) {
        self.receive = ReceiveState::PortDisabled;
        self.partner.in_sync = false;
        self.timers.stop(TimerKind::CurrentWhile);
    }

    fn enter_expired(&mut self, now: Instant) {
        self.receive = ReceiveState::Expired;
        self.partner.in_sync = false;
        self.partner.short_timeout = true;
        let deadline = now.saturating_add(SHORT_TIMEOUT_TIME);
        self.timers.start(TimerKind::CurrentWhile, deadline);
    }

    fn enter_defaulted(&mut self) {
        self.receive = ReceiveState::Defaulted;
        if !self.partner.names_same_port(&NO_PARTNER) {
            self.selected = Selected::Unselected;
        }
        self.partner = NO_PARTNER;
    }
}

/// The Mux machine, which decides whether the port carries frames. Collecting and distributing begin and end together.
impl Port {
    /// Makes a transition of the Mux machine. `is_ready` is the aggregator's `Ready`: no port that waits for this
    /// aggregator waits for its timer any more.
    pub(super) fn step_mux(&mut self, now: Instant, is_ready: bool) -> bool {
        // That it does not run any more is all that counts, see `has_waited`.
        let _ = self.timers.take_expired(TimerKind::WaitWhile);
        let partner_in_sync = self.partner.in_sync;
        let next = match (self.mux, self.selected) {
            (MuxState::Detached, Selected::Selected | Selected::Standby) => MuxState::Waiting,
            (MuxState::Waiting, Selected::Unselected) => MuxState::Detached,
            (MuxState::Waiting, Selected::Selected) if is_ready => MuxState::Attached,
            (MuxState::Attached, Selected::Unselected | Selected::Standby) => MuxState::Detached,
            (MuxState::Attached, Selected::Selected) if partner_in_sync => {
                MuxState::CollectingDistributing
            }
            (MuxState::CollectingDistributing, selected)
                if selected != Selected::Selected || !partner_in_sync =>
            {
                MuxState::Attached
            }
            _ => return false,
        };
        self.mux = next;
        self.timers.stop(TimerKind::WaitWhile);
        if next == MuxState::Waiting {
            let deadline = now.saturating_add(AGGREGATE_WAIT_TIME);
            self.timers.start(TimerKind::WaitWhile, deadline);
        } else {
            self.actor.in_sync = next != MuxState::Detached;
            self.need_to_transmit = true;
        }
        true
    }

    /// Returns `Ready_N`: true if the port has waited for its timer.
    pub(super) fn has_waited(&self) -> bool {
        self.mux == MuxState::Waiting && self.timers.deadline(TimerKind::WaitWhile).is_none()
    }
}

/// The Periodic Transmission machine, which sends LACPDUs so that the partner knows that the port works.
///
/// Each period counts from the previous deadline, not from the time at which the host fired the timer: a timer with
/// slack fires late, but the rate stays.
impl Port {
    pub(super) fn step_periodic(&mut self, now: Instant) -> bool {
        let expired = self.timers.take_expired(TimerKind::Periodic);
        let (wanted, period) = match (self.enabled, self.partner.short_timeout) {
            (false, _) => {
                self.timers.stop(TimerKind::Periodic);
                let old = std::mem::replace(&mut self.periodic, PeriodicState::NoPeriodic);
                return old != PeriodicState::NoPeriodic;
            }
            (true, true) => (PeriodicState::FastPeriodic, FAST_PERIODIC_TIME),
            (true, false) => (PeriodicState::SlowPeriodic, SLOW_PERIODIC_TIME),
        };
        // A partner that wants to hear more from now on hears something now.
        let is_faster =
            (self.periodic, wanted) == (PeriodicState::SlowPeriodic, PeriodicState::FastPeriodic);
        if self.periodic == wanted && expired.is_none() {
            return false;
        }
        self.need_to_transmit |= is_faster || expired.is_some();
        self.periodic = wanted;
        let from = expired.filter(|_| !is_faster).unwrap_or(now);
        self.start_period(from, period, now);
        true
    }

    fn start_period(&mut self, from: Instant, period: Span, now: Instant) {
        let mut next = from.saturating_add(period);
        if next <= now {
            // Rounded down: whole periods.
            self.periods_missed += now.saturating_since(from).as_nanos() / period.as_nanos();
            next = now.saturating_add(period);
        }
        self.timers.start(TimerKind::Periodic, next);
    }
}

/// Churn Detection: one machine for this end, one for the partner.
///
/// | state | on entry | leaves to |
/// |---|---|---|
/// | MONITOR | starts the timer, 60 s | NO_CHURN when in sync; CHURN when the timer expires and the party is not in sync |
/// | NO_CHURN | | MONITOR when not in sync |
/// | CHURN | | NO_CHURN when in sync |
///
/// A port that is not enabled forces MONITOR from any state, and holds the machine there: the 60 s count from the time
/// at which the port is enabled. An expiry outside of MONITOR is consumed, and changes nothing.
impl Port {
    pub(super) fn step_churn(&mut self, now: Instant) -> bool {
        let before = self.churn;
        let parties = [
            (TimerKind::ActorChurn, self.actor.in_sync),
            (TimerKind::PartnerChurn, self.partner.in_sync),
        ];
        for (state, (timer, in_sync)) in self.churn.iter_mut().zip(parties) {
            let expired = self.timers.take_expired(timer).is_some();
            *state = match *state {
                _ if !self.enabled => ChurnState::Monitor,
                _ if in_sync => ChurnState::NoChurn,
                ChurnState::Monitor if expired => ChurnState::Churn,
                ChurnState::NoChurn => ChurnState::Monitor,
                state => state,
            };
            if *state != ChurnState::Monitor || !self.enabled {
                self.timers.stop(timer);
            } else if self.timers.deadline(timer).is_none() {
                let deadline = now.saturating_add(CHURN_DETECTION_TIME);
                self.timers.start(timer, deadline);
            }
        }
        self.churn != before
    }
}
