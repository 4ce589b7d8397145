//! Changes of a machine's clocks: sets of the time of day, leap seconds, changes of the rate, and sleeps of the
//! machine.
//!
//! A change counts from the furthest cursor on, see [`clock`](crate::clock): one event begins the change, and another
//! event, at the time of that cursor, ends it and lets a CPU notify the timers. A change that comes while another is
//! under way waits.

use tickless_core::clock::ClockSet;
use tickless_core::platform::CpuId;

use crate::clock::Change;
use crate::fault::{Fault, FaultKind};
use crate::machine::cpu::Cpu;
use crate::machine::machine::Machine;
use crate::machine::queue::EventKind;
use crate::model::current_cpu;
use crate::model::profile::IdleState;
use crate::model::time::Picos;

/// The number in place of a fault's for a change that the host makes by itself.
const BY_ITSELF: u32 = u32::MAX;

const fn change_of(fault: &Fault) -> Option<Change> {
    match fault.kind {
        FaultKind::ClockStep => Some(Change::Step(fault.nanos())),
        FaultKind::Frequency => Some(Change::Steer(fault.ppm)),
        FaultKind::Suspend => Some(Change::Sleep(fault.amount)),
        _ => None,
    }
}

/// Handles a time of the fault `index`, which is a fault of the clocks.
pub(super) fn fault_comes(machine: &mut Machine, at: Picos, index: u32) {
    let change = change_of(&machine.host().plan()[index as usize]);
    match change {
        Some(change) => begin_change(machine, change, at, index),
        None => leap_comes(machine, at, index),
    }
}

/// Handles the time of an announced leap second: the host checks the clock, again and again until the leap second is
/// over by the clock too. These checks are needed because all CPUs may sleep without an interrupt for long, and a
/// deleted leap second makes timers due.
fn leap_comes(machine: &mut Machine, at: Picos, index: u32) {
    update(machine, at);
    if machine.host().clocks.has_leap_before(at) {
        machine.push(at + machine.period, EventKind::ClockFault, 0, index);
    }
}

/// Returns the furthest cursor: no CPU has executed anything at a later time.
fn furthest(machine: &Machine, at: Picos) -> Picos {
    let furthest = machine.cpus.iter().map(Cpu::busy_until).max();
    furthest.unwrap_or(at).max(at).max(current_cpu::cursor())
}

fn begin_change(machine: &mut Machine, change: Change, at: Picos, index: u32) {
    if machine.host().clocks.is_changing(at) {
        machine.push(at + machine.period, EventKind::ClockFault, 0, index);
        return;
    }
    let from = furthest(machine, at);
    if let Change::Sleep(_) = change {
        // A CPU that is not there yet executes nothing more before.
        for cpu in 0..machine.cpus.len() {
            let number = u32::try_from(cpu).unwrap_or(current_cpu::NO_CPU);
            let busy_until = machine.cpus[cpu].busy_until().max(at);
            machine.stall(number, busy_until, from - busy_until);
        }
    }
    machine.host().clocks.begin(change, from);
    machine.push(from, EventKind::Clock, 0, index);
}

/// Completes the change of the fault `index` at the time `at`, from which the change counts.
pub(super) fn changed(machine: &mut Machine, at: Picos, index: u32) {
    let host = machine.timers.platform();
    let Some(change) = host.clocks.finish() else {
        return;
    };
    match change {
        Change::Step(_) => host.count_fault(FaultKind::ClockStep),
        Change::Leap(_) => host.count_fault(FaultKind::LeapSecond),
        Change::Steer(_) => host.count_fault(FaultKind::Frequency),
        Change::Sleep(_) => {
            host.count_fault(FaultKind::Suspend);
            wakes_up(machine, at);
        }
        Change::Replace => host.is_slow.set(true),
    }
    if let Change::Step(_) | Change::Leap(_) = change {
        let plan = machine.host().plan();
        let cpus = plan
            .get(index as usize)
            .map_or(&[][..], |fault| &fault.cpus);
        machine.push(at, EventKind::ClockSet, teller(machine, cpus), 0);
    }
}

/// Returns the CPU that publishes a clock set to the timers: the first of `cpus` that is online, or of all.
fn teller(machine: &Machine, cpus: &[u32]) -> u32 {
    let online = |cpu: &u32| !machine.cpus[*cpu as usize].is_off;
    let first = cpus.iter().copied().find(online);
    let all = 0..u32::try_from(machine.cpus.len()).unwrap_or(0);
    first.or_else(|| all.into_iter().find(online)).unwrap_or(0)
}

/// Notifies the timers, on the executing CPU, that the time of day was set.
pub(super) fn tell(machine: &Machine) {
    machine.timers.clock_was_set(ClockSet::WALL);
}

/// Lets another CPU notify the timers, because the chosen CPU is offline.
pub(super) fn let_another_tell(machine: &Machine, at: Picos) {
    machine.push(at, EventKind::ClockSet, teller(machine, &[]), 0);
}

/// Wakes the machine. Its devices lost their programming while it slept (spec ).
fn wakes_up(machine: &mut Machine, at: Picos) {
    for phase in [Phase::Sleep, Phase::Resume] {
        for cpu in 0..machine.cpus.len() {
            let state = &machine.cpus[cpu];
            if state.is_off {
                continue;
            }
            let number = u32::try_from(cpu).unwrap_or(current_cpu::NO_CPU);
            current_cpu::enter(number, state.cursor.max(at));
            match phase {
                Phase::Sleep => machine.timers.suspend(CpuId(number)),
                Phase::Resume => machine.timers.resume(CpuId(number)),
            }
            let cursor = current_cpu::leave();
            machine.cpus[cpu].cursor = cursor;
            if phase == Phase::Resume {
                // Looks what to do, and sleeps on, or longer or shorter than before.
                machine.push(cursor, EventKind::Reschedule, number, 0);
            }
        }
    }
}

/// Updates the clocks at an interrupt that came at `at`, if an update is due.
pub(super) fn update(machine: &mut Machine, at: Picos) {
    let clocks = &machine.host().clocks;
    if !clocks.is_due(at) {
        return;
    }
    if let Some(leap) = clocks.update(at, furthest(machine, at)) {
        begin_change(machine, leap, at, BY_ITSELF);
    }
}

/// Returns the state `chosen`, or the deepest state in which the counter continues until the counter is replaced.
pub(super) fn without_counter(machine: &mut Machine, chosen: usize) -> usize {
    let clocks = &machine.host().clocks;
    if !machine.states[chosen].deep || !clocks.stops_when_deep() {
        return chosen;
    }
    if !clocks.is_changing(machine.event_at) {
        let at = current_cpu::cursor();
        begin_change(machine, Change::Replace, at, BY_ITSELF);
    }
    let goes_on = |state: &IdleState| !state.deep;
    machine.states[..chosen]
        .iter()
        .rposition(goes_on)
        .unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Sleep,
    Resume,
}
