//! Stations, which run bonds on a host with real timers.
//!
//! # Ground rules
//!
//! - One thread owns the station. The callbacks of its timers, on whichever thread they run, only note which timer
//!   fired.
//! - The owner calls [`Station::run_due`] after anything that may have fired timers, and sends the frames that
//!   [`Station::take_frame`] returns.
//! - A note about a timer that was moved meanwhile does no harm: see [`Bond::fired`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tickless_core::hrtimer::Setup;
use tickless_core::time::{Instant, Span};

use super::bond::{Action, Bond, BondConfig};
use super::port::Lacpdu;
use super::timers::TimerKind;
use crate::host::{Host, Timer};
use crate::lock;

/// An LACPDU that has to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The bond that sends it.
    pub bond: usize,
    /// The port that sends it.
    pub port: usize,
    /// The LACPDU.
    pub pdu: Lacpdu,
}

/// The identity of a timer within its station, as its callback notes it.
#[derive(Clone, Copy, Debug)]
struct Fired {
    bond: usize,
    port: usize,
    timer: TimerKind,
}

/// A bond and its timers, [`TimerKind::COUNT`] for each port.
#[derive(Debug)]
struct Mirrored<T> {
    bond: Bond,
    timers: Vec<T>,
}

/// The bonds of a system, and the timers of `H` that drive the bonds.
#[derive(Debug)]
pub struct Station<H: Host> {
    host: H,
    periodic_slack: Span,
    bonds: Vec<Mirrored<H::Timer>>,
    /// The expiries that no event has handled yet. A timer occurs twice at most: all expiries are handled before an
    /// event can start a timer again, and only an expiry of a timer that fires meanwhile is added.
    due: Arc<Mutex<Vec<Fired>>>,
    outbox: VecDeque<Frame>,
    actions: Vec<Action>,
}

impl<H: Host> Station<H> {
    /// Makes a station without bonds; its periodic timers may fire up to `periodic_slack` late. The standard tolerates
    /// 250 ms.
    #[must_use]
    pub fn new(host: H, periodic_slack: Span) -> Self {
        Self {
            host,
            periodic_slack,
            bonds: Vec::new(),
            due: Arc::new(Mutex::new(Vec::new())),
            outbox: VecDeque::new(),
            actions: Vec::new(),
        }
    }

    /// Adds a bond with all links down; returns the number of the bond, counted from 0.
    pub fn add(&mut self, config: &BondConfig) -> usize {
        let number = self.bonds.len();
        let bond = Bond::new(config);
        let mut timers = Vec::with_capacity(bond.ports().len() * TimerKind::COUNT);
        for port in 0..bond.ports().len() {
            for timer in TimerKind::ALL {
                let due = Arc::clone(&self.due);
                let fired = Fired {
                    bond: number,
                    port,
                    timer,
                };
                let note = move |_| lock(&due).push(fired);
                timers.push(self.host.timer(Setup::new(), note));
            }
        }
        self.bonds.push(Mirrored { bond, timers });
        number
    }

    /// Returns a bond.
    ///
    /// # Panics
    ///
    /// If the station has no such bond, as all methods that take the number of a bond do.
    #[must_use]
    pub fn bond(&self, number: usize) -> &Bond {
        &self.bonds[number].bond
    }

    /// Returns the bonds.
    pub fn bonds(&self) -> impl Iterator<Item = &Bond> {
        self.bonds.iter().map(|mirrored| &mirrored.bond)
    }

    /// Notes that a link came up or went down.
    pub fn set_link(&mut self, bond: usize, port: usize, up: bool) {
        self.run_due();
        self.handle(bond, |bond, now, actions| {
            bond.set_link(port, up, now, actions);
        });
    }

    /// Notes that a port received an LACPDU.
    pub fn deliver(&mut self, bond: usize, port: usize, pdu: &Lacpdu) {
        self.run_due();
        self.handle(bond, |bond, now, actions| {
            bond.receive(port, pdu, now, actions);
        });
    }

    /// Handles the timers that fired; returns their number. All other events do this first.
    pub fn run_due(&mut self) -> usize {
        let due = std::mem::take(&mut *lock(&self.due));
        for &Fired { bond, port, timer } in &due {
            self.handle(bond, |bond, now, actions| {
                bond.fired(port, timer, now, actions);
            });
        }
        due.len()
    }

    /// Returns the next frame that has to be sent.
    pub fn take_frame(&mut self) -> Option<Frame> {
        self.outbox.pop_front()
    }

    /// Lets a bond handle an event, and executes the resulting actions.
    fn handle(&mut self, number: usize, event: impl FnOnce(&mut Bond, Instant, &mut Vec<Action>)) {
        let now = self.host.now();
        let Mirrored { bond, timers } = &mut self.bonds[number];
        event(bond, now, &mut self.actions);
        for action in self.actions.drain(..) {
            match action {
                Action::Send { port, pdu } => self.outbox.push_back(Frame {
                    bond: number,
                    port,
                    pdu,
                }),
                Action::Timer {
                    port,
                    timer,
                    deadline,
                } => {
                    let real = &timers[port * TimerKind::COUNT + timer as usize];
                    match (deadline, timer) {
                        (Some(at), TimerKind::Periodic) => real.start(at, self.periodic_slack),
                        (Some(at), _) => real.start(at, Span::ZERO),
                        (None, _) => real.stop(),
                    }
                }
            }
        }
    }
}
