//! The Mux machine with coupled control (clause 6.4.15, figure 6-22): whether the port carries frames.
//!
//! Coupled: collecting and distributing begin and end together, as in hardware that cannot tell them apart. With
//! independent control (figure 6-21) a port collects before its partner distributes.

use tickless_core::time::Instant;

use super::pdu::PortState;
use super::port::{Port, Selected};
use super::timers::{AGGREGATE_WAIT_TIME, TimerKind};

/// The states of the Mux machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MuxState {
    /// The port is attached to no aggregator.
    Detached,
    /// Others may attach too: they go together. Ports on standby stay here.
    Waiting,
    /// Attached; the partner is not.
    Attached,
    /// Carries frames.
    CollectingDistributing,
}

impl Port {
    /// Makes at most one transition; says whether it did. `is_ready` is the aggregator's `Ready`: no port that waits
    /// for it waits for its timer.
    pub(super) fn step_mux(&mut self, now: Instant, is_ready: bool) -> bool {
        // That it does not run any more is all that counts, see `has_waited`.
        let _ = self.timers.take_expired(TimerKind::WaitWhile);
        let partner_in_sync = self.partner.state.has(PortState::SYNCHRONIZATION);
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
        self.enter_mux(next, now);
        true
    }

    /// `Ready_N`.
    pub(super) fn has_waited(&self) -> bool {
        self.mux == MuxState::Waiting && self.timers.deadline(TimerKind::WaitWhile).is_none()
    }

    fn enter_mux(&mut self, state: MuxState, now: Instant) {
        self.mux = state;
        self.timers.stop(TimerKind::WaitWhile);
        if state == MuxState::Waiting {
            let deadline = now.saturating_add(AGGREGATE_WAIT_TIME);
            self.timers.start(TimerKind::WaitWhile, deadline);
            return;
        }
        let carries = state == MuxState::CollectingDistributing;
        let flags = &mut self.actor.state;
        flags.set(PortState::SYNCHRONIZATION, state != MuxState::Detached);
        flags.set(PortState::COLLECTING.and(PortState::DISTRIBUTING), carries);
        self.need_to_transmit = true;
    }
}
