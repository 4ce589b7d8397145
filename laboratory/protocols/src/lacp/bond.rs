//! Bonds, the ports of one system that act as one link: the selection of aggregators, the active aggregator, and the
//! order in which the machines run.
//!
//! # Selection (clause 6.4.14)
//!
//! Ports that have the same partner and can be aggregated at both ends share an aggregator; any other port has an
//! aggregator of its own. One aggregator is *active*. An aggregator that receives LACPDUs of its partner is preferred,
//! and after that an aggregator with more usable ports. If two aggregators are equal, the active aggregator stays
//! active, so that a port which returns changes nothing.
//!
//! # One active aggregator
//!
//! The rights of a port follow from two values, the port's aggregator and the active aggregator: the port is selected
//! if they are the same, and on standby otherwise. So no event has to change the rights of a port explicitly.
//! `examples/README.md` has the reasons.
//!
//! When another aggregator becomes active, the Receive machines of the former aggregator's ports are put into
//! PORT_DISABLED. From this state they pass through EXPIRED: they request the description of the partner again, and a
//! partner that continues to send does not keep the old description alive.

use tickless_core::time::Instant;

use super::port::{Lacpdu, MuxState, Party, PeriodicState, Port, ReceiveState, Selected};
use super::timers::TimerKind;

/// The largest number of rounds in which all machines of a bond make their transitions for one event. Random failures
/// of four ports take four rounds at most; a bond that takes this many rounds has an endless cycle of transitions.
const ROUNDS_MAX: u32 = 16;

/// The rate at which a system requests LACPDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// One LACPDU each second; the system gives the partner up after 3 s. `LACP_Timeout` is *short*.
    Fast,
    /// One LACPDU each 30 s; the system gives the partner up after 90 s. `LACP_Timeout` is *long*.
    Slow,
}

/// The configuration of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BondConfig {
    /// The MAC address of this system.
    pub system: [u8; 6],
    /// The number of ports.
    pub ports: u16,
    /// The rate at which the partner is to send.
    pub rate: Rate,
}

/// A command of the machines to the host that drives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send an LACPDU.
    Send {
        /// The number of the port that sends.
        port: usize,
        /// The LACPDU.
        pdu: Lacpdu,
    },
    /// Start a timer, whether or not it runs, or stop it.
    Timer {
        /// The number of the timer's port.
        port: usize,
        /// The timer of the port.
        timer: TimerKind,
        /// The earliest time at which the timer may expire; `None` stops it.
        deadline: Option<Instant>,
    },
}

/// The ports of one system that act as one link.
///
/// Each method takes an event and its time, and returns [`Action`]s. A bond reads no clock, waits for nothing and sends
/// nothing.
#[derive(Clone, Debug)]
pub struct Bond {
    ports: Vec<Port>,
    active: Option<usize>,
}

impl Bond {
    /// Makes a bond with all links down. Ports and aggregators are numbered from 0.
    #[must_use]
    pub fn new(config: &BondConfig) -> Self {
        let port = |number: u16| {
            let actor = Party {
                system: config.system,
                // Zero stands for "none" in LACPDUs.
                port: number + 1,
                aggregation: true,
                short_timeout: config.rate == Rate::Fast,
                in_sync: false,
            };
            Port::new(actor, number.into())
        };
        Self {
            ports: (0..config.ports).map(port).collect(),
            active: None,
        }
    }

    /// Returns the ports of the bond.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Notes that a link came up or went down.
    ///
    /// # Panics
    ///
    /// If the bond has no port of this number, as all events do.
    pub fn set_link(&mut self, port: usize, up: bool, now: Instant, actions: &mut Vec<Action>) {
        self.ports[port].enabled = up;
        self.settle(now, actions);
    }

    /// Notes that a port received an LACPDU.
    pub fn receive(&mut self, port: usize, pdu: &Lacpdu, now: Instant, actions: &mut Vec<Action>) {
        self.ports[port].received(pdu, now);
        self.settle(now, actions);
    }

    /// Notes that a timer of the host fired. A timer that was restarted or stopped meanwhile has no effect.
    pub fn fired(
        &mut self,
        port: usize,
        timer: TimerKind,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        if self.ports[port].timers.fired(timer, now) {
            self.settle(now, actions);
        }
    }

    /// Lets all machines make their transitions until no transition is possible, and adds the resulting actions to
    /// `actions`.
    fn settle(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let mut rounds = 0;
        while self.step(now) {
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "the machines do not settle");
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            // Nothing is kept for later: a link that comes up begins with its first period.
            let is_told = std::mem::take(&mut port.need_to_transmit)
                && port.periodic != PeriodicState::NoPeriodic;
            let pdu = Lacpdu {
                actor: port.actor,
                partner: port.partner,
            };
            actions.extend(is_told.then_some(Action::Send { port: number, pdu }));
            let change = |(timer, deadline)| Action::Timer {
                port: number,
                timer,
                deadline,
            };
            actions.extend(port.timers.take_changes().map(change));
        }
        self.check();
    }

    /// Runs one round of all machines; returns true if any machine made a transition.
    fn step(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for port in &mut self.ports {
            // To its end, so that no other machine sees a port that is enabled and still PORT_DISABLED.
            while port.step_receive(now) {
                moved = true;
            }
        }
        moved |= self.select();
        for number in 0..self.ports.len() {
            let is_ready = self.is_ready(self.ports[number].aggregator);
            let port = &mut self.ports[number];
            moved |= port.step_mux(now, is_ready);
            moved |= port.step_periodic(now);
            moved |= port.step_churn(now);
        }
        moved
    }

    /// Returns `Ready`: true if all ports that wait for `aggregator` have waited long enough.
    fn is_ready(&self, aggregator: usize) -> bool {
        self.members(aggregator)
            .filter(|port| port.mux == MuxState::Waiting)
            .all(Port::has_waited)
    }

    fn members(&self, aggregator: usize) -> impl Iterator<Item = &Port> {
        let is_member = move |port: &&Port| port.aggregator() == Some(aggregator);
        self.ports.iter().filter(is_member)
    }

    /// Runs the selection logic; returns true if anything changed.
    fn select(&mut self) -> bool {
        let mut moved = false;
        for number in 0..self.ports.len() {
            let port = &self.ports[number];
            if port.selected == Selected::Unselected && port.mux == MuxState::Detached {
                let aggregator = self.aggregator_for(number);
                let port = &mut self.ports[number];
                port.aggregator = aggregator;
                port.selected = Selected::Standby;
                moved = true;
            }
        }
        moved |= self.choose_active();
        for port in &mut self.ports {
            let role = match port.aggregator() {
                None => Selected::Unselected,
                Some(aggregator) if self.active == Some(aggregator) => Selected::Selected,
                Some(_) => Selected::Standby,
            };
            moved |= port.selected != role;
            port.selected = role;
        }
        moved
    }

    /// Returns the aggregator of the ports with the same partner, or a free aggregator.
    fn aggregator_for(&self, number: usize) -> usize {
        let own = &self.ports[number];
        let same = |port: &&Port| {
            port.selected != Selected::Unselected
                && partner_of(port).is_some_and(|partner| partner_of(own) == Some(partner))
        };
        if let Some(port) = self.ports.iter().find(same) {
            return port.aggregator;
        }
        let is_free = |aggregator: &usize| self.members(*aggregator).next().is_none();
        std::iter::once(number)
            .chain(0..self.ports.len())
            .find(is_free)
            .expect("there are as many aggregators as ports, and this port has none")
    }

    /// Makes the best aggregator the active aggregator; returns true if the active aggregator changed.
    fn choose_active(&mut self) -> bool {
        let mut best = self.active.map(|active| (self.rank(active), active));
        for aggregator in 0..self.ports.len() {
            let rank = self.rank(aggregator);
            if rank.usable > 0 && best.is_none_or(|(best, _)| rank > best) {
                best = Some((rank, aggregator));
            }
        }
        let new = best.map(|(_, aggregator)| aggregator);
        if new == self.active {
            return false;
        }
        let old = std::mem::replace(&mut self.active, new);
        for port in &mut self.ports {
            // Not for what was unselected: that is going already.
            if old.is_some() && port.aggregator() == old {
                port.enter_port_disabled();
            }
        }
        true
    }

    fn rank(&self, aggregator: usize) -> Rank {
        let is_usable = |port: &&Port| {
            let state = port.receive;
            port.enabled && !matches!(state, ReceiveState::Expired | ReceiveState::PortDisabled)
        };
        let usable = || self.members(aggregator).filter(is_usable);
        Rank {
            has_partner: usable().any(|port| port.receive == ReceiveState::Current),
            usable: usable().count(),
        }
    }

    /// Checks everything that must hold between two events.
    ///
    /// # Panics
    ///
    /// If a port carries frames without belonging to the active aggregator or with a link that is down, if the flags
    /// that a port sends do not match its state, or if a machine missed a transition.
    pub fn check(&self) {
        for port in &self.ports {
            if port.is_distributing() {
                assert_eq!(
                    port.aggregator(),
                    self.active,
                    "a port outside of the active aggregator carries frames"
                );
                assert!(port.enabled, "a port without a link carries frames");
                assert!(port.partner.in_sync);
            }
            let is_attached = !matches!(port.mux, MuxState::Detached | MuxState::Waiting);
            assert_eq!(port.actor.in_sync, is_attached);
            let runs = port.deadline(TimerKind::CurrentWhile).is_some();
            let needed = matches!(port.receive, ReceiveState::Expired | ReceiveState::Current);
            assert_eq!(runs, needed, "current_while in {:?}", port.receive);
        }
    }
}

/// The order of preference among aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    has_partner: bool,
    usable: usize,
}

/// Returns the partner's system; `None` for a port that never shares an aggregator.
fn partner_of(port: &Port) -> Option<[u8; 6]> {
    (port.actor.aggregation && port.partner.aggregation).then_some(port.partner.system)
}
