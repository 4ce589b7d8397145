//! The Receive machine (clause 6.4.12, figure 6-18): the partner's description that is in force, and for how long.

use tickless_core::time::Instant;

use super::pdu::{Lacpdu, PortState};
use super::port::{Port, Selected};
use super::timers::{LONG_TIMEOUT_TIME, SHORT_TIMEOUT_TIME, TimerKind};

/// The states of the Receive machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveState {
    /// The system starts.
    Initialize,
    /// The link is down, or the port's aggregator is the active one no longer.
    PortDisabled,
    /// The partner was silent for too long: it has three seconds more.
    Expired,
    /// The partner does not speak LACP.
    LacpDisabled,
    /// The partner was silent: the configured description of it is in force.
    Defaulted,
    /// The partner's own description of itself is in force.
    Current,
}

/// The flags whose change the partner is told of at once.
const TOLD_AT_ONCE: PortState = PortState::ACTIVITY
    .and(PortState::TIMEOUT)
    .and(PortState::SYNCHRONIZATION)
    .and(PortState::AGGREGATION);

impl Port {
    /// Makes at most one transition that needs no LACPDU; says whether it did.
    pub(super) fn step_receive(&mut self, now: Instant) -> bool {
        let expired = self.timers.take_expired(TimerKind::CurrentWhile).is_some();
        match self.receive {
            ReceiveState::Initialize => self.enter_port_disabled(),
            ReceiveState::PortDisabled if self.enabled && self.lacp_enabled => {
                self.enter_expired(now);
            }
            ReceiveState::PortDisabled if self.enabled => self.enter_lacp_disabled(),
            ReceiveState::PortDisabled => return false,
            _ if !self.enabled => self.enter_port_disabled(),
            ReceiveState::Expired if expired => self.enter_defaulted(),
            ReceiveState::Current if expired => self.enter_expired(now),
            _ => return false,
        }
        true
    }

    /// An LACPDU came.
    pub(super) fn received(&mut self, pdu: &Lacpdu, now: Instant) {
        self.counters.received += 1;
        let listens = matches!(
            self.receive,
            ReceiveState::Expired | ReceiveState::Defaulted | ReceiveState::Current
        );
        if listens && self.enabled {
            self.enter_current(pdu, now);
        }
    }

    /// The machine starts, as at power on.
    pub(super) fn enter_initialize(&mut self) {
        self.receive = ReceiveState::Initialize;
        self.selected = Selected::Unselected;
        self.record_default();
        self.actor.state.set(PortState::EXPIRED, false);
    }

    /// Forgets that the partner is in sync. The selection stays: a link that comes back to the same partner disturbs no
    /// other.
    pub(super) fn enter_port_disabled(&mut self) {
        self.receive = ReceiveState::PortDisabled;
        self.partner.state.set(PortState::SYNCHRONIZATION, false);
        self.timers.stop(TimerKind::CurrentWhile);
    }

    fn enter_expired(&mut self, now: Instant) {
        self.receive = ReceiveState::Expired;
        self.partner.state.set(PortState::SYNCHRONIZATION, false);
        self.partner.state.set(PortState::TIMEOUT, true);
        let deadline = now.saturating_add(SHORT_TIMEOUT_TIME);
        self.timers.start(TimerKind::CurrentWhile, deadline);
        self.actor.state.set(PortState::EXPIRED, true);
    }

    fn enter_lacp_disabled(&mut self) {
        self.receive = ReceiveState::LacpDisabled;
        self.selected = Selected::Unselected;
        self.record_default();
        self.partner.state.set(PortState::AGGREGATION, false);
        self.actor.state.set(PortState::EXPIRED, false);
    }

    fn enter_defaulted(&mut self) {
        self.receive = ReceiveState::Defaulted;
        // update_Default_Selected
        if !self.partner.names_same_port(&self.partner_default) {
            self.selected = Selected::Unselected;
        }
        self.record_default();
        self.actor.state.set(PortState::EXPIRED, false);
    }

    fn enter_current(&mut self, pdu: &Lacpdu, now: Instant) {
        self.receive = ReceiveState::Current;
        // update_Selected
        if !self.partner.names_same_port(&pdu.actor) {
            self.selected = Selected::Unselected;
        }
        self.update_need_to_transmit(pdu);
        self.record_pdu(pdu);
        self.actor.state.set(PortState::EXPIRED, false);
        let is_short = self.actor.state.has(PortState::TIMEOUT);
        let time = if is_short {
            SHORT_TIMEOUT_TIME
        } else {
            LONG_TIMEOUT_TIME
        };
        // Each LACPDU pushes it out; it fires for none of them.
        let deadline = now.saturating_add(time);
        self.timers.start(TimerKind::CurrentWhile, deadline);
    }

    /// `update_NTT`: the partner gets an LACPDU if its description of this end is out of date.
    fn update_need_to_transmit(&mut self, pdu: &Lacpdu) {
        let told = pdu.partner.state.only(TOLD_AT_ONCE);
        self.need_to_transmit |= !pdu.partner.names_same_port(&self.actor)
            || told != self.actor.state.only(TOLD_AT_ONCE);
    }

    /// `recordPDU`.
    fn record_pdu(&mut self, pdu: &Lacpdu) {
        self.partner = pdu.actor;
        let knows_us = pdu.partner.names_same_port(&self.actor);
        let is_individual = !pdu.actor.state.has(PortState::AGGREGATION);
        let goes_on = pdu.actor.state.has(PortState::ACTIVITY)
            || (self.actor.state.has(PortState::ACTIVITY)
                && pdu.partner.state.has(PortState::ACTIVITY));
        let sync = pdu.actor.state.has(PortState::SYNCHRONIZATION)
            && (knows_us || is_individual)
            && goes_on;
        self.partner.state.set(PortState::SYNCHRONIZATION, sync);
        self.actor.state.set(PortState::DEFAULTED, false);
    }

    /// `recordDefault`.
    fn record_default(&mut self) {
        self.partner = self.partner_default;
        self.actor.state.set(PortState::DEFAULTED, true);
    }
}
