//! A network of stations in one virtual machine, joined by wires.

use std::collections::{BTreeMap, BTreeSet};

use tickless_conformance::{Deferred, Rig};
use tickless_core::time::{Instant, Span};

use super::bond::{Bond, BondConfig};
use super::port::Port;
use super::station::Station;
use crate::host::Simulated;

/// An end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The number of the station, which is also the number of its CPU.
    pub station: u32,
    /// The number of the bond in the station.
    pub bond: usize,
    /// The number of the port in the bond.
    pub port: usize,
}

impl End {
    /// Makes the end of a wire at a port.
    #[must_use]
    pub const fn new(station: u32, bond: usize, port: usize) -> Self {
        Self {
            station,
            bond,
            port,
        }
    }
}

/// Stations, each on a CPU of its own, and wires between their ports.
///
/// A wire takes no time: a frame arrives at the nanosecond at which it is sent, after all frames that were sent before.
#[derive(Debug)]
pub struct Network {
    rig: Rig<Deferred>,
    stations: Vec<Station<Simulated>>,
    wires: BTreeMap<End, End>,
    /// The ends whose frames are lost although the link is up.
    silent: BTreeSet<End>,
}

impl Network {
    /// Makes a machine with one station for each CPU; `periodic_slack` has the slack of each station's periodic timers.
    ///
    /// # Panics
    ///
    /// If the network would have no station, or more than 2^32 stations.
    #[must_use]
    pub fn new(periodic_slack: &[Span]) -> Self {
        let cpus = u32::try_from(periodic_slack.len()).expect("few stations");
        let rig = Rig::new(cpus);
        let host = Simulated(rig.clone());
        let station = |slack: &Span| Station::new(host.clone(), *slack);
        Self {
            stations: periodic_slack.iter().map(station).collect(),
            rig,
            wires: BTreeMap::new(),
            silent: BTreeSet::new(),
        }
    }

    /// Returns the virtual machine.
    #[must_use]
    pub fn rig(&self) -> &Rig<Deferred> {
        &self.rig
    }

    /// Returns the virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.rig.monotonic()
    }

    /// Adds a bond to a station; returns the number of the bond in the station.
    ///
    /// # Panics
    ///
    /// If the network has no such station, as all methods that take the number of a station do.
    pub fn add(&mut self, station: u32, config: &BondConfig) -> usize {
        self.stations[station as usize].add(config)
    }

    /// Joins two ports by a wire. Their links stay down.
    pub fn connect(&mut self, one: End, other: End) {
        self.wires.insert(one, other);
        self.wires.insert(other, one);
    }

    /// Brings the link of a wire up, or down, at both ends.
    ///
    /// # Panics
    ///
    /// If no wire ends at `end`.
    pub fn set_link(&mut self, end: End, up: bool) {
        let other = self.wires[&end];
        for end in [end, other] {
            self.on(end.station, |station| {
                station.set_link(end.bond, end.port, up)
            });
        }
        self.deliver_all();
    }

    /// Sets whether all frames that `end` sends are lost; the link stays up.
    pub fn set_silent(&mut self, end: End, silent: bool) {
        if silent {
            self.silent.insert(end);
        } else {
            self.silent.remove(&end);
        }
    }

    /// Returns a bond.
    #[must_use]
    pub fn bond(&self, station: u32, bond: usize) -> &Bond {
        self.stations[station as usize].bond(bond)
    }

    /// Returns the bonds of a station.
    pub fn bonds(&self, station: u32) -> impl Iterator<Item = &Bond> {
        self.stations[station as usize].bonds()
    }

    /// Returns a port.
    #[must_use]
    pub fn port(&self, end: End) -> &Port {
        &self.bond(end.station, end.bond).ports()[end.port]
    }

    /// Lets time pass until `until`, to the nanosecond.
    pub fn run_until(&mut self, until: Instant) {
        let until = until.as_nanos();
        // Not `Rig::run_until`: that looks at all invariants of all queues after each interrupt.
        while let Some(at) = self.next_interrupt().filter(|at| *at <= until) {
            self.pass_to(at);
            self.rig.deliver_all();
            self.deliver_all();
        }
        self.pass_to(until);
    }

    /// Lets `span` pass.
    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now().saturating_add(span));
    }

    fn next_interrupt(&self) -> Option<i64> {
        let cpus = 0..self.rig.cpus();
        cpus.filter_map(|cpu| self.rig.fires_at(cpu)).min()
    }

    fn pass_to(&self, at: i64) {
        self.rig.spend((at - self.rig.now()).max(0));
        // The trace is not read here, and it grows.
        drop(self.rig.take_trace());
    }

    fn on<R>(&mut self, number: u32, body: impl FnOnce(&mut Station<Simulated>) -> R) -> R {
        let station = &mut self.stations[number as usize];
        self.rig.on(number, || body(station))
    }

    /// Handles all timers that fired, and all frames, until no timer and no frame is left.
    fn deliver_all(&mut self) {
        loop {
            let mut moved = false;
            for from in 0..self.rig.cpus() {
                moved |= self.on(from, Station::run_due) > 0;
                while let Some(frame) = self.stations[from as usize].take_frame() {
                    moved = true;
                    let end = End::new(from, frame.bond, frame.port);
                    let target = self.wires.get(&end).filter(|_| !self.silent.contains(&end));
                    if let Some(to) = target.copied() {
                        self.on(to.station, |station| {
                            station.deliver(to.bond, to.port, &frame.pdu);
                        });
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }
}
