//! A port: what is known of the two ends of its link (clause 6.4.7), and the states of its machines.

use std::fmt;

use tickless_core::time::Instant;

use super::timers::{TimerKind, Timers};

/// The description of one end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// The MAC address of its system.
    pub system: [u8; 6],
    /// The number of the port, from 1; 0 for none.
    pub port: u16,
    /// True if the port can be aggregated with others.
    pub aggregation: bool,
    /// True if the port wants an LACPDU each second, and gives its partner up after three.
    pub short_timeout: bool,
    /// The port is attached to the right aggregator.
    pub in_sync: bool,
}

impl Party {
    /// Returns true if both describe the same port, and agree on whether it can be aggregated.
    pub(super) fn names_same_port(&self, other: &Self) -> bool {
        (self.system, self.port, self.aggregation) == (other.system, other.port, other.aggregation)
    }
}

/// A Link Aggregation Control Protocol Data Unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacpdu {
    /// The party that sends it.
    pub actor: Party,
    /// The receiver, as the sender knows it.
    pub partner: Party,
}

/// The states of the Receive machine (clause 6.4.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveState {
    /// The link is down, or the port's aggregator is the active one no longer.
    PortDisabled,
    /// The partner was silent for too long: it has three seconds more.
    Expired,
    /// The partner was silent: the port works as an individual link.
    Defaulted,
    /// The partner's own description of itself is in force.
    Current,
}

/// The states of the Periodic Transmission machine (clause 6.4.13). PERIODIC_TX, which is left at once, is the
/// transition between the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodicState {
    /// The port sends no LACPDUs: its link is down.
    NoPeriodic,
    /// Each second, because the partner gives up after three.
    FastPeriodic,
    /// Each 30 s.
    SlowPeriodic,
}

/// The states of the Mux machine (clause 6.4.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MuxState {
    /// The port is attached to no aggregator.
    Detached,
    /// The port waits until others may attach too: they go together. Ports on standby stay here.
    Waiting,
    /// The port is attached, and its partner is not.
    Attached,
    /// Carries frames.
    CollectingDistributing,
}

/// The states of a Churn Detection machine (clause 6.4.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChurnState {
    /// Waits for the party to come into sync.
    Monitor,
    /// The party is in sync.
    NoChurn,
    /// The party did not come into sync in time.
    Churn,
}

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

/// The machines and variables of a port.
#[derive(Clone, Debug)]
pub struct Port {
    /// The link is up.
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
    /// Whole periods that went by without a periodic LACPDU, because the host came late.
    pub periods_missed: u64,
    /// Number of the aggregator; has a meaning unless the port is unselected.
    pub(super) aggregator: usize,
    /// An LACPDU has to be sent (`NTT`).
    pub(super) need_to_transmit: bool,
    pub(super) timers: Timers,
}

/// The description assumed of the other end until it speaks: a port without a partner works as an individual link.
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

    /// The number of its aggregator, if it has one.
    #[must_use]
    pub fn aggregator(&self) -> Option<usize> {
        (self.selected != Selected::Unselected).then_some(self.aggregator)
    }

    /// Returns true if the bond gives frames to this port.
    #[must_use]
    pub fn is_distributing(&self) -> bool {
        self.mux == MuxState::CollectingDistributing
    }

    /// Returns the time at which a timer expires, if it runs.
    #[must_use]
    pub fn deadline(&self, timer: TimerKind) -> Option<Instant> {
        self.timers.deadline(timer)
    }
}

/// One line: the states of all machines.
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
