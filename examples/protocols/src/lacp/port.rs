//! A port: its variables (clause 6.4.7), and the queries for them.

use std::fmt;

use tickless_core::time::Instant;

use super::churn::{Churn, ChurnInputs, ChurnTimer};
use super::mux::MuxState;
use super::pdu::{Lacpdu, Party, PortState};
use super::periodic::PeriodicState;
use super::receive::ReceiveState;
use super::timers::{CHURN_DETECTION_TIME, TimerKind, Timers};
use super::transmit::Window;

/// The relation of a port to its aggregator (clause 6.4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    /// The port has no aggregator.
    Unselected,
    /// The port has an aggregator, which is not the active one.
    Standby,
    /// The port has the active aggregator.
    Selected,
}

/// The counts of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// LACPDUs sent.
    pub sent: u64,
    /// LACPDUs received, those not looked at included.
    pub received: u64,
    /// Whole periods that went by without a periodic LACPDU, because the host came late.
    pub periods_missed: u64,
    /// Expiries that came for a timer which had been restarted or stopped meanwhile.
    pub stale_expiries: u64,
}

/// The machines and variables of a port.
#[derive(Clone, Debug)]
pub struct Port {
    pub(super) enabled: bool,
    pub(super) lacp_enabled: bool,
    /// This end, as its LACPDUs describe it (operational).
    pub(super) actor: Party,
    /// The other end, as its LACPDUs describe it (operational).
    pub(super) partner: Party,
    /// The description assumed of the other end until it speaks (administrative).
    pub(super) partner_default: Party,
    pub(super) selected: Selected,
    /// Meaningful unless unselected.
    pub(super) aggregator: usize,
    /// An LACPDU has to be sent (`NTT`).
    pub(super) need_to_transmit: bool,
    pub(super) receive: ReceiveState,
    pub(super) periodic: PeriodicState,
    pub(super) mux: MuxState,
    pub(super) actor_churn: Churn,
    pub(super) partner_churn: Churn,
    pub(super) timers: Timers,
    pub(super) window: Window,
    pub(super) counters: PortCounters,
}

impl Port {
    pub(super) fn new(actor: Party, number: usize, lacp_enabled: bool) -> Self {
        let partner_default = Party {
            // A port without a partner works as an individual link.
            state: PortState::SYNCHRONIZATION
                .and(PortState::COLLECTING)
                .and(PortState::DISTRIBUTING),
            ..Party::default()
        };
        Self {
            enabled: false,
            lacp_enabled,
            actor,
            partner: partner_default,
            partner_default,
            selected: Selected::Unselected,
            aggregator: number,
            need_to_transmit: false,
            receive: ReceiveState::Initialize,
            periodic: PeriodicState::NoPeriodic,
            mux: MuxState::Detached,
            actor_churn: Churn::default(),
            partner_churn: Churn::default(),
            timers: Timers::default(),
            window: Window::default(),
            counters: PortCounters::default(),
        }
    }

    /// `port_enabled`: the link is up.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The state of the Receive machine.
    #[must_use]
    pub const fn receive(&self) -> ReceiveState {
        self.receive
    }

    /// The state of the Periodic Transmission machine.
    #[must_use]
    pub const fn periodic(&self) -> PeriodicState {
        self.periodic
    }

    /// The state of the Mux machine.
    #[must_use]
    pub const fn mux(&self) -> MuxState {
        self.mux
    }

    /// The Churn Detection machine of this end.
    #[must_use]
    pub const fn actor_churn(&self) -> &Churn {
        &self.actor_churn
    }

    /// The Churn Detection machine of the other end.
    #[must_use]
    pub const fn partner_churn(&self) -> &Churn {
        &self.partner_churn
    }

    /// Returns the port's relation to its aggregator.
    #[must_use]
    pub const fn selected(&self) -> Selected {
        self.selected
    }

    /// The number of its aggregator, if it has one.
    #[must_use]
    pub fn aggregator(&self) -> Option<usize> {
        (self.selected != Selected::Unselected).then_some(self.aggregator)
    }

    /// Returns the description of this end.
    #[must_use]
    pub const fn actor(&self) -> &Party {
        &self.actor
    }

    /// Returns the description of the other end that is in force.
    #[must_use]
    pub const fn partner(&self) -> &Party {
        &self.partner
    }

    /// Returns true if the bond gives frames to this port.
    #[must_use]
    pub const fn is_distributing(&self) -> bool {
        matches!(self.mux, MuxState::CollectingDistributing)
    }

    /// Returns the time at which a timer expires, if it runs.
    #[must_use]
    pub fn deadline(&self, timer: TimerKind) -> Option<Instant> {
        self.timers.deadline(timer)
    }

    /// Returns the counts of the port.
    #[must_use]
    pub const fn counters(&self) -> PortCounters {
        self.counters
    }

    /// Returns the LACPDU that the port would send now.
    pub(super) fn pdu(&self) -> Lacpdu {
        Lacpdu {
            actor: self.actor,
            partner: self.partner,
            collector_max_delay: 0,
        }
    }

    /// Lets both Churn Detection machines make their transitions; says whether there were any.
    pub(super) fn step_churn(&mut self, now: Instant) -> bool {
        let parties = [
            (&mut self.actor_churn, TimerKind::ActorChurn, &self.actor),
            (
                &mut self.partner_churn,
                TimerKind::PartnerChurn,
                &self.partner,
            ),
        ];
        let mut moved = false;
        for (churn, kind, party) in parties {
            let timer = churn.step(ChurnInputs {
                begin: matches!(self.receive, ReceiveState::Initialize),
                port_enabled: self.enabled,
                sync: party.state.has(PortState::SYNCHRONIZATION),
                timer_expired: self.timers.take_expired(kind).is_some(),
            });
            match timer {
                Some(ChurnTimer::Start) => {
                    let deadline = now.saturating_add(CHURN_DETECTION_TIME);
                    self.timers.start(kind, deadline);
                }
                Some(ChurnTimer::Stop) => self.timers.stop(kind),
                None => continue,
            }
            moved = true;
        }
        moved
    }
}

/// One line: the states of all machines.
impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.enabled { "up" } else { "down" };
        write!(
            formatter,
            "{link:4}  {:12}  {:12}  {:22}  {:10}  actor {:7}  partner {:7}",
            format!("{:?}", self.receive),
            format!("{:?}", self.periodic),
            format!("{:?}", self.mux),
            format!("{:?}", self.selected),
            format!("{:?}", self.actor_churn.state()),
            format!("{:?}", self.partner_churn.state()),
        )
    }
}
