//! Bonds, and partners for them.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses some of it"
)]

use tickless_core::time::{Instant, Span};
use tickless_protocols::lacp::{
    Action, Activity, Bond, BondConfig, End, Lacpdu, Network, Party, Port, PortId, PortState, Rate,
    SystemId, TimerKind,
};
use tickless_rig::Deferred;

pub(crate) type Net = Network<Deferred>;

pub(crate) const SECOND: Span = Span::from_secs(1);

pub(crate) fn seconds(count: u64) -> Span {
    Span::from_secs(count)
}

/// Returns the instant `count` seconds after the beginning.
pub(crate) fn at(count: u64) -> Instant {
    Instant::ZERO.saturating_add(seconds(count))
}

/// The nanosecond before.
pub(crate) fn before(instant: Instant) -> Instant {
    Instant::from_nanos(instant.as_nanos() - 1)
}

pub(crate) fn system(number: u8) -> SystemId {
    SystemId {
        priority: 0x8000,
        address: [2, 0, 0, 0, 0, number],
    }
}

/// An active system of so many ports that wants an LACPDU each second.
pub(crate) fn config(number: u8, ports: u16) -> BondConfig {
    BondConfig {
        system: system(number),
        key: 1,
        ports,
        rate: Rate::Fast,
        activity: Activity::Active,
    }
}

/// Two systems with one bond each, the same ports joined; all links are down.
pub(crate) fn pair(one: &BondConfig, other: &BondConfig) -> Net {
    let mut net = Net::new(&[Span::ZERO; 2]);
    net.add(0, one);
    net.add(1, other);
    for port in 0..usize::from(one.ports) {
        net.connect(End::new(0, 0, port), End::new(1, 0, port));
    }
    net
}

pub(crate) const A: End = End::new(0, 0, 0);
pub(crate) const B: End = End::new(1, 0, 0);

/// A bond that is driven by hand.
pub(crate) struct ByHand {
    pub(crate) bond: Bond,
    pub(crate) now: Instant,
    pub(crate) sent: Vec<(usize, Lacpdu)>,
    pub(crate) actions: Vec<Action>,
}

impl ByHand {
    pub(crate) fn new(config: &BondConfig) -> Self {
        Self {
            bond: Bond::new(config),
            now: Instant::ZERO,
            sent: Vec::new(),
            actions: Vec::new(),
        }
    }

    pub(crate) fn port(&self, port: usize) -> &Port {
        &self.bond.ports()[port]
    }

    fn note(&mut self, actions: Vec<Action>) {
        for action in &actions {
            if let Action::Send { port, pdu } = action {
                self.sent.push((*port, *pdu));
            }
        }
        self.actions = actions;
    }

    pub(crate) fn set_link(&mut self, port: usize, up: bool) {
        let mut actions = Vec::new();
        self.bond.set_link(port, up, self.now, &mut actions);
        self.note(actions);
    }

    pub(crate) fn receive(&mut self, port: usize, pdu: &Lacpdu) {
        let mut actions = Vec::new();
        self.bond.receive(port, pdu, self.now, &mut actions);
        self.note(actions);
    }

    pub(crate) fn fired(&mut self, port: usize, timer: TimerKind) {
        let mut actions = Vec::new();
        self.bond.fired(port, timer, self.now, &mut actions);
        self.note(actions);
    }

    /// Returns the LACPDU of the port of system `from` that is in sync and knows everything about `port`.
    pub(crate) fn in_sync(&self, port: usize, from: u8) -> Lacpdu {
        let state = PortState::ACTIVITY
            .and(PortState::TIMEOUT)
            .and(PortState::AGGREGATION)
            .and(PortState::SYNCHRONIZATION);
        Lacpdu {
            actor: Party {
                system: system(from),
                key: 7,
                port: PortId {
                    priority: 1,
                    number: u16::try_from(port).unwrap() + 100,
                },
                state,
            },
            partner: *self.port(port).actor(),
            collector_max_delay: 0,
        }
    }

    /// Lets the partner `from` of `port` say that it is in sync.
    pub(crate) fn hear(&mut self, port: usize, from: u8) {
        let pdu = self.in_sync(port, from);
        self.receive(port, &pdu);
    }

    /// Lets time pass until `until`, firing timers when they are due.
    pub(crate) fn run_until(&mut self, until: Instant) {
        loop {
            let ports = 0..self.bond.ports().len();
            let running = ports.flat_map(|port| TimerKind::ALL.map(|timer| (port, timer)));
            let first = running
                .filter_map(|(port, timer)| Some((self.port(port).deadline(timer)?, port, timer)))
                .min();
            let Some((deadline, port, timer)) = first.filter(|(when, ..)| *when <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(deadline);
            self.fired(port, timer);
        }
    }
}
