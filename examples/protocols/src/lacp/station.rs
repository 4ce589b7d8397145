//! Bonds on a host: real timers.
//!
//! # Ground rules
//!
//! - One thread owns the station. The callbacks of its timers, wherever they run, only note which timer fired.
//! - The owner calls [`Station::run_due`] after anything that may have fired timers, and takes the frames out.
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

/// An LACPDU on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The bond that sends it.
    pub bond: usize,
    /// The port that sends it.
    pub port: usize,
    /// The LACPDU.
    pub pdu: Lacpdu,
}

/// The name of a timer within its station.
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

/// Bonds, and the timers of `H` that drive them.
#[derive(Debug)]
pub struct Station<H: Host> {
    host: H,
    periodic_slack: Span,
    bonds: Vec<Mirrored<H::Timer>>,
    /// Expiries that no event has handled yet. A timer is in here twice at most: all are handled before an event can
    /// start a timer again, and only one that fires meanwhile is added.
    due: Arc<Mutex<Vec<Fired>>>,
    outbox: VecDeque<Frame>,
    actions: Vec<Action>,
}

impl<H: Host> Station<H> {
    /// A station without bonds, whose periodic timers may fire up to `periodic_slack` late. The standard tolerates
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

    /// Adds a bond, whose links are down; returns its number, which counts from 0.
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

    /// A bond.
    ///
    /// # Panics
    ///
    /// When there is no such bond, as everything that takes its number does.
    #[must_use]
    pub fn bond(&self, number: usize) -> &Bond {
        &self.bonds[number].bond
    }

    /// The bonds.
    pub fn bonds(&self) -> impl Iterator<Item = &Bond> {
        self.bonds.iter().map(|mirrored| &mirrored.bond)
    }

    /// A link came up or went down.
    pub fn set_link(&mut self, bond: usize, port: usize, up: bool) {
        self.run_due();
        self.handle(bond, |bond, now, actions| {
            bond.set_link(port, up, now, actions);
        });
    }

    /// An LACPDU came in.
    pub fn deliver(&mut self, bond: usize, port: usize, pdu: &Lacpdu) {
        self.run_due();
        self.handle(bond, |bond, now, actions| {
            bond.receive(port, pdu, now, actions);
        });
    }

    /// Works off what fired; says how many timers that were. The other events do so first.
    pub fn run_due(&mut self) -> usize {
        let due = std::mem::take(&mut *lock(&self.due));
        for &Fired { bond, port, timer } in &due {
            self.handle(bond, |bond, now, actions| {
                bond.fired(port, timer, now, actions);
            });
        }
        due.len()
    }

    /// The next frame to be sent.
    pub fn take_frame(&mut self) -> Option<Frame> {
        self.outbox.pop_front()
    }

    /// Lets a bond handle an event, and does what it asks for.
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
