//! The injector of faults into the interrupts of devices, with a count of each kind.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tickless_conformance::random::Random;

use super::{Fault, FaultKind, When};
use crate::model::time::Picos;

/// The faults of one CPU's device.
#[derive(Debug)]
pub(crate) struct FaultState {
    /// True if the draw of a fault was made for the last write of the device, with either result.
    pub(crate) is_drawn: Cell<bool>,
    /// The time at which an interrupt comes that was due and is late; zero if none is.
    pub(crate) held_until: Cell<Picos>,
    /// The time at which the next interrupt comes after one that was lost.
    pub(crate) rescue: Cell<Picos>,
    /// True if another CPU kicked this CPU, and this CPU has not checked its timers since.
    pub(crate) is_kicked: Cell<bool>,
    /// True if another CPU cancelled or moved the timer for which the device is armed, and did not rearm the device.
    /// The device then fires once without need (spec CAN-2).
    pub(crate) is_left_armed: Cell<bool>,
    /// True if the device fires before the time for which it was written.
    pub(crate) is_early: Cell<bool>,
}

impl Default for FaultState {
    fn default() -> Self {
        Self {
            is_drawn: Cell::new(false),
            held_until: Cell::new(Picos::ZERO),
            rescue: Cell::new(Picos::FOREVER),
            is_kicked: Cell::new(false),
            is_left_armed: Cell::new(false),
            is_early: Cell::new(false),
        }
    }
}

impl FaultState {
    /// Notes that the device is written to fire at `fires`, or stopped. Returns the time at which its next interrupt
    /// comes.
    ///
    /// An interrupt that was due is pending in the controller of a real machine, and comes whatever is written to the
    /// device next. If a write cancelled it, [`Fault::allows`] would not hold: a task without a tick, which has the
    /// tick in progress started anew for an overdue timer whenever it enters the kernel, writes the device each 0.3 to
    /// 1.7 ms, and would put off an interrupt that is 2.7 ms late for as long as it runs.
    pub(crate) fn written(&self, fires: Picos) -> Picos {
        self.is_left_armed.set(false);
        self.is_early.set(false);
        let held_until = self.held_until.get();
        let is_held = held_until != Picos::ZERO;
        self.is_drawn.set(is_held);
        if is_held {
            fires.min(held_until)
        } else {
            fires
        }
    }
}

/// The fate of an interrupt that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoilt {
    /// The interrupt comes later by this time.
    Late(Picos),
    /// The interrupt is lost, and another one comes later by this time.
    Lost(Picos),
}

/// The plan, and its results so far.
#[derive(Debug)]
pub(crate) struct Injector {
    pub(crate) plan: Rc<[Fault]>,
    pub(crate) random: Random,
    counts: [u64; FaultKind::ALL.len()],
    /// The fault that spoils the next interrupt, for each CPU that has one.
    ready: Vec<(u32, usize)>,
}

impl Injector {
    pub(crate) fn new(plan: Rc<[Fault]>, seed: u64) -> Self {
        Self {
            plan,
            random: Random::new(seed),
            counts: [0; FaultKind::ALL.len()],
            ready: Vec::new(),
        }
    }

    pub(crate) const fn count(&mut self, kind: FaultKind) {
        self.counts[kind as usize] += 1;
    }

    /// Returns the number of faults that happened, for each kind in the plan.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let planned = |kind: &FaultKind| self.plan.iter().any(|fault| fault.kind == *kind);
        FaultKind::ALL
            .into_iter()
            .filter(planned)
            .map(|kind| (kind.name(), self.counts[kind as usize]))
    }

    /// The fault `index` spoils the next interrupt of `cpu`.
    pub(crate) fn prepare(&mut self, cpu: u32, index: usize) {
        if !self.ready.contains(&(cpu, index)) {
            self.ready.push((cpu, index));
        }
    }

    /// The fault that spoils an interrupt of `cpu`, if any: of those of which `is_asked`.
    fn spoils(
        &mut self,
        cpu: u32,
        is_asked: impl Fn(FaultKind) -> bool,
    ) -> Option<(FaultKind, Picos)> {
        for index in 0..self.plan.len() {
            let fault = &self.plan[index];
            if !is_asked(fault.kind) {
                continue;
            }
            let hits = match fault.when {
                When::OneIn(times) => {
                    fault.cpus.binary_search(&cpu).is_ok() && self.random.one_in(times.into())
                }
                When::At(_) | When::Every(_) => {
                    let place = self.ready.iter().position(|one| *one == (cpu, index));
                    place.map(|place| self.ready.swap_remove(place)).is_some()
                }
            };
            if hits {
                return Some((self.plan[index].kind, self.plan[index].amount));
            }
        }
        None
    }

    /// Returns the lead of an interrupt that `cpu` asks for, if a fault makes it early.
    pub(crate) fn early(&mut self, cpu: u32) -> Option<Picos> {
        let early = self.spoils(cpu, |kind| kind == FaultKind::Early);
        early.map(|(_, amount)| amount)
    }

    /// Returns the delay of an interrupt by which another CPU asks `cpu` for something.
    pub(crate) fn sent(&mut self, cpu: u32) -> Picos {
        let Some((kind, amount)) = self.spoils(cpu, |kind| kind == FaultKind::LostWakeup) else {
            return Picos::ZERO;
        };
        self.count(kind);
        amount
    }

    /// Returns the fate of an interrupt of `cpu` that is due.
    pub(crate) fn due(&mut self, cpu: u32) -> Option<Spoilt> {
        let is_asked = |kind| matches!(kind, FaultKind::Late | FaultKind::Lost);
        let (kind, amount) = self.spoils(cpu, is_asked)?;
        self.count(kind);
        Some(match kind {
            FaultKind::Late => Spoilt::Late(amount),
            _ => Spoilt::Lost(amount),
        })
    }
}

/// The payload of a panic that is thrown on purpose.
#[derive(Debug)]
struct Injected;

/// Executes a callback for the core, and catches what was thrown on purpose. Everything else is a mistake, and goes on.
pub(crate) fn call_and_catch(faults: &RefCell<Injector>, callback: &mut dyn FnMut()) {
    let Err(thrown) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(callback)) else {
        return;
    };
    if thrown.is::<Injected>() {
        faults.borrow_mut().count(FaultKind::Panic);
    } else {
        std::panic::resume_unwind(thrown);
    }
}

/// Panics on purpose, without the hook, which would print it.
pub(crate) fn panic_on_purpose() -> ! {
    std::panic::resume_unwind(Box::new(Injected));
}
