//! Faults of the clocks: somebody sets the time of day, a leap second comes, the rate changes, the machine sleeps.
//!
//! A change counts from the furthest cursor on, see [`clock`](crate::clock): one event begins it, and another
//! one, at that moment, ends it and lets a CPU tell the timers. A change that comes while another is under way waits.

use tickless_core::clock::ClockSet;
use tickless_core::platform::CpuId;

use crate::clock::Change;
use crate::fault::{Fault, FaultKind};
use crate::machine::machine::{Cpu, World};
use crate::machine::queue::What;
use crate::model::current_cpu;
use crate::model::time::Picos;

/// In place of the number of a fault: no fault, the host changes something by itself.
const BY_ITSELF: u32 = u32::MAX;

impl Fault {
    const fn change(&self) -> Option<Change> {
        match self.kind {
            FaultKind::ClockStep => Some(Change::Step(self.nanos())),
            FaultKind::Frequency => Some(Change::Steer(self.ppm)),
            FaultKind::Suspend => Some(Change::Sleep(self.amount)),
            _ => None,
        }
    }
}

impl World {
    /// A moment of the fault `index` came, which is one of the clocks.
    pub(crate) fn clock_fault_comes(&mut self, at: Picos, index: u32) {
        let change = self.plan()[index as usize].change();
        match change {
            Some(change) => self.begin_change(change, at, index),
            None => self.leap_comes(at, index),
        }
    }

    /// The moment of a leap second came, which was announced: the host looks, and looks again until it is over by the
    /// clock too. All CPUs may sleep, so that no interrupt comes for long, and one that is deleted makes timers due.
    fn leap_comes(&mut self, at: Picos, index: u32) {
        self.update_clocks(at);
        if self.timers.platform().clocks.has_leap_before(at) {
            self.push(at + self.period, What::ClockFault, 0, index);
        }
    }

    fn begin_change(&mut self, change: Change, at: Picos, index: u32) {
        let clocks = &self.timers.platform().clocks;
        if clocks.is_changing() {
            self.push(at + self.period, What::ClockFault, 0, index);
            return;
        }
        let furthest = self.cpus.iter().map(Cpu::busy_until).max();
        let from = furthest.unwrap_or(at).max(at).max(current_cpu::cursor());
        if let Change::Sleep(_) = change {
            // Whoever is not there yet executes nothing more before.
            for cpu in 0..self.cpus.len() {
                let number = u32::try_from(cpu).unwrap_or(current_cpu::NO_CPU);
                let busy_until = self.cpus[cpu].busy_until().max(at);
                self.stall(number, busy_until, from - busy_until);
            }
        }
        self.timers.platform().clocks.begin(change, from);
        self.push(from, What::Clock, 0, index);
    }

    /// The moment `at` came from which a change counts, that of the fault `index`.
    pub(crate) fn clocks_changed(&mut self, at: Picos, index: u32) {
        let Some(change) = self.timers.platform().clocks.finish() else {
            return;
        };
        match change {
            Change::Step(_) => self.count_fault(FaultKind::ClockStep),
            Change::Leap(_) => self.count_fault(FaultKind::LeapSecond),
            Change::Steer(_) => self.count_fault(FaultKind::Frequency),
            Change::Sleep(_) => {
                self.count_fault(FaultKind::Suspend);
                self.wakes_up(at);
            }
            Change::Replace => self.timers.platform().is_slow.set(true),
        }
        if let Change::Step(_) | Change::Leap(_) = change {
            let cpus = self
                .plan()
                .get(index as usize)
                .map(|fault| fault.cpus.clone());
            let teller = self.teller(&cpus.unwrap_or_default());
            self.push(at, What::ClockSet, teller, 0);
        }
    }

    /// Who tells the timers: the first of `cpus` that is online, or of all.
    fn teller(&self, cpus: &[u32]) -> u32 {
        let online = |cpu: &u32| !self.cpus[*cpu as usize].is_off;
        let first = cpus.iter().copied().find(online);
        let all = 0..u32::try_from(self.cpus.len()).unwrap_or(0);
        first.or_else(|| all.into_iter().find(online)).unwrap_or(0)
    }

    /// The CPU that executes tells the timers that the time of day was set.
    pub(crate) fn tells_of_clock(&self) {
        self.timers.clock_was_set(ClockSet::WALL);
    }

    /// Nobody is left who could be told.
    pub(crate) fn tells_another(&self, at: Picos) {
        self.push(at, What::ClockSet, self.teller(&[]), 0);
    }

    /// The machine slept, and its devices forgot what they were to do (spec 1.7).
    fn wakes_up(&mut self, at: Picos) {
        for phase in [Phase::Sleep, Phase::Resume] {
            for cpu in 0..self.cpus.len() {
                let state = &self.cpus[cpu];
                if state.is_off {
                    continue;
                }
                let number = u32::try_from(cpu).unwrap_or(current_cpu::NO_CPU);
                current_cpu::enter(number, state.cursor.max(at));
                match phase {
                    Phase::Sleep => self.timers.suspend(CpuId(number)),
                    Phase::Resume => self.timers.resume(CpuId(number)),
                }
                self.cpus[cpu].cursor = current_cpu::leave();
                if phase == Phase::Resume {
                    // Looks what to do, and sleeps on, or longer or shorter than before.
                    self.push(self.cpus[cpu].cursor, What::Reschedule, number, 0);
                }
            }
        }
    }

    /// An interrupt came at `at`: brings the clocks forward if it is time.
    pub(crate) fn update_clocks(&mut self, at: Picos) {
        let clocks = &self.timers.platform().clocks;
        if let Some(leap) = clocks.update(at)
            && !clocks.is_changing()
        {
            self.begin_change(leap, at, BY_ITSELF);
        }
    }

    /// The state `chosen`, or the deepest in which the counter goes on: it is replaced first.
    pub(crate) fn without_counter(&mut self, chosen: usize) -> usize {
        let host = self.timers.platform();
        if !self.states[chosen].deep || !host.clocks.stops_when_deep() {
            return chosen;
        }
        if !host.clocks.is_changing() {
            self.begin_change(Change::Replace, current_cpu::cursor(), BY_ITSELF);
        }
        let goes_on = |state: &crate::model::profile::IdleState| !state.deep;
        self.states[..chosen].iter().rposition(goes_on).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Sleep,
    Resume,
}
