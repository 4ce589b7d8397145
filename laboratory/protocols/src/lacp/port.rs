//! The state of a port: the descriptions of the two ends of its link (clause 6.4.7), and the states of its machines.

use std::fmt;

use tickless_core::time::Instant;

use super::timers::{TimerKind, Timers};

/// The description of one end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// The MAC address of the party's system.
    pub system: [u8; 6],
    /// The number of the port, from 1; 0 for none.
    pub port: u16,
    /// True if the port can be aggregated with others.
    pub aggregation: bool,
    /// True if the port requests an LACPDU each second, and gives its partner up after 3 s.
    pub short_timeout: bool,
    /// True if the port is attached to the right aggregator.
    pub in_sync: bool,
}

impl Party {
    /// Returns true if both descriptions are of the same port, and agree on whether the port can be aggregated.
    pub(super) fn names_same_port(&self, other: &Self) -> bool {
        (self.system, self.port, self.aggregation) == (other.system, other.port, other.aggregation)
    }
}

/// A Link Aggregation Control Protocol Data Unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacpdu {
    /// The party that sends the LACPDU.
    pub actor: Party,
    /// The receiver, as the sender knows it.
    pub partner: Party,
}

/// The states of the Receive machine (clause 6.4.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveState {
    /// The link is down, or the port's aggregator is no longer the active aggregator.
    PortDisabled,
    /// The partner was silent for too long: the port waits for three more seconds.
    Expired,
    /// The partner was silent: the port works as an individual link.
    Defaulted,
    /// The partner's own description of itself is in force.
    Current,
}

/// The states of the Periodic Transmission machine (clause 6.4.13). PERIODIC_TX is not a state here but the transition
/// between the other states, because a machine leaves it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodicState {
    /// The port sends no LACPDUs: its link is down.
    NoPeriodic,
    /// The port sends an LACPDU each second, because the partner gives up after 3 s.
    FastPeriodic,
    /// The port sends an LACPDU each 30 s.
    SlowPeriodic,
}

/// The states of the Mux machine (clause 6.4.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MuxState {
    /// The port is attached to no aggregator.
    Detached,
    /// The port waits until other ports may attach too, because they attach together. Ports on standby stay here.
    Waiting,
    /// The port is attached to its aggregator, and its partner is not in sync.
    Attached,
    /// The port carries frames.
    CollectingDistributing,
}

/// The states of a Churn Detection machine (clause 6.4.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChurnState {
    /// The machine waits until the party is in sync.
    Monitor,
    /// The party is in sync.
    NoChurn,
    /// The party was not in sync in time.
    Churn,
}

/// The relation of a port to its aggregator (clause 6.4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    /// The port has no aggregator.
    Unselected,
    /// The port has an aggregator, which is not the active aggregator.
    Standby,
    /// The port's aggregator is the active aggregator.
    Selected,
}

/// The machines and variables of a port.
#[derive(Clone, Debug)]
pub struct Port {
    /// True if the link is up.
    pub enabled: bool,
    /// This end, as its LACPDUs describe it.
    pub actor: Party,
    /// The description of the other end that is in force.
    pub partner: Party,
    /// The port's relation to its aggregator.
    pub selected: Selected,
    /// The state of the Receive machine.
    pub receive: ReceiveState,
    /// The state of the Periodic Transmission machine.
    pub periodic: PeriodicState,
    /// The state of the Mux machine.
    pub mux: MuxState,
    /// The states of the Churn Detection machines: of this end, and of the other one.
    pub churn: [ChurnState; 2],
    /// The number of whole periods without a periodic LACPDU, because the host fired the timer late.
    pub periods_missed: u64,
    /// The number of the aggregator, which is valid unless the port is unselected.
    pub(super) aggregator: usize,
    /// True if an LACPDU has to be sent (`NTT`).
    pub(super) need_to_transmit: bool,
    pub(super) timers: Timers,
}

/// The assumed description of the other end until an LACPDU arrives: a port without a partner works as an individual
/// link.
pub(super) const NO_PARTNER: Party = Party {
    system: [0; 6],
    port: 0,
    aggregation: false,
    short_timeout: false,
    in_sync: true,
};

impl Port {
    pub(super) fn new(actor: Party, number: usize) -> Self {
        Self {
            enabled: false,
            actor,
            partner: NO_PARTNER,
            selected: Selected::Unselected,
            receive: ReceiveState::PortDisabled,
            periodic: PeriodicState::NoPeriodic,
            mux: MuxState::Detached,
            churn: [ChurnState::Monitor; 2],
            periods_missed: 0,
            aggregator: number,
            need_to_transmit: false,
            timers: Timers::default(),
        }
    }

    /// Returns the number of the port's aggregator, if the port has an aggregator.
    #[must_use]
    pub fn aggregator(&self) -> Option<usize> {
        (self.selected != Selected::Unselected).then_some(self.aggregator)
    }

    /// Returns true if the bond gives frames to this port.
    #[must_use]
    pub fn is_distributing(&self) -> bool {
        self.mux == MuxState::CollectingDistributing
    }

    /// Returns the time at which a timer expires, if the timer runs.
    #[must_use]
    pub fn deadline(&self, timer: TimerKind) -> Option<Instant> {
        self.timers.deadline(timer)
    }
}

/// Writes the states of all machines in one line.
impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.enabled { "up" } else { "down" };
        let [actor, partner] = self.churn;
        write!(
            formatter,
            "{link:4}  {:12}  {:12}  {:22}  {:10}  actor {:7}  partner {:7}",
            format!("{:?}", self.receive),
            format!("{:?}", self.periodic),
            format!("{:?}", self.mux),
            format!("{:?}", self.selected),
            format!("{actor:?}"),
            format!("{partner:?}"),
        )
    }
}
