//! CPUs that go offline and come back online (spec C-5.2, C-5.3).
//!
//! The parts of a CPU leave in this order: its place in the hierarchy, its tick, its exact timers, its coarse timers.
//! Inter-processor interrupts to the CPU that are pending are lost, as on real machines. Its tasks stay in its run
//! queue.

use tickless_core::hierarchy::Leaving;
use tickless_core::platform::CpuId;

use crate::baseline::Target;
use crate::fault::FaultKind;
use crate::machine::cpu::Cpu;
use crate::machine::machine::Machine;
use crate::machine::queue::{EventKind, SimEvent};
use crate::machine::{clocks, idle};
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::record::MachineEvent;

/// Returns true if a CPU other than `cpu` is online and not isolated.
pub(super) fn others_keep_house(machine: &Machine, cpu: u32) -> bool {
    let keeps = |(other, state): (u32, &Cpu)| {
        other != cpu && !state.is_off && !machine.isolated[other as usize]
    };
    (0..).zip(&machine.cpus).any(keeps)
}

/// Takes `cpu`, which executes, offline until `amount` from now, if another CPU is left for housekeeping.
pub(super) fn take_off(machine: &mut Machine, cpu: u32, amount: Picos, left: Picos) {
    if !others_keep_house(machine, cpu) || !machine.ticks.may_leave(cpu) {
        return;
    }
    idle::leave(machine, cpu);
    machine.end_slice(cpu);
    let state = &mut machine.cpus[cpu as usize];
    state.segment = state.segment.wrapping_add(1);
    if let Some(task) = state.current {
        let one = &mut machine.tasks[task as usize];
        if one.left != Picos::FOREVER {
            one.left = left.max(Picos(1));
        }
        machine.put_back(cpu, task, true);
    }
    let state = &mut machine.cpus[cpu as usize];
    state.is_off = true;
    if let Some(precise) = &mut state.precise {
        precise.offline();
        precise.previous = None;
    }
    end_tick(machine, cpu);
    let id = CpuId(cpu);
    if machine.policy.target == Target::Local {
        let left = machine.tree.clear_available(id, Leaving::Offline);
        assert_eq!(left, Ok(()), "it was prepared");
    }
    let fault = &machine.host().local(cpu).fault;
    fault.held_until.set(Picos::ZERO);
    machine.timers.cpu_offline(id);
    let now = machine.tick_time().tick;
    machine.timers.wheel_offline(id, now);
    if let Some(wakener) = &machine.wakener {
        wakener.offline(cpu);
    }
    let host = machine.host();
    let local = host.local(cpu);
    local.awaits_call.set(false);
    local.fault.rescue.set(Picos::FOREVER);
    local.fault.is_kicked.set(false);
    host.push(current_cpu::cursor() + amount, EventKind::Return, cpu, 0);
    record(machine, cpu, false);
    host.count_fault(FaultKind::Offline);
}

/// Ends the tick of `cpu`. If `cpu` checked the clocks from time to time, another CPU does that from here on.
fn end_tick(machine: &Machine, cpu: u32) {
    let host = machine.host();
    let heir = host.housekeeper_but(cpu);
    let timer = machine.cpus[cpu as usize].tick.pinned();
    let now = host.shows();
    let nohz = machine.ticks.nohz();
    let ended = nohz.offline(&mut machine.ticks.of(cpu), timer, now, CpuId(heir));
    if ended == Ok(true) && machine.ticks.is_stopped(heir) {
        machine.timers.request_retrigger(CpuId(heir));
    }
}

/// Handles an event for a CPU that is offline, other than the event that brings it back.
pub(super) fn comes_while_off(machine: &mut Machine, event: SimEvent) {
    let SimEvent {
        at,
        kind,
        cpu,
        argument,
    } = event;
    match kind {
        EventKind::Continue => machine.cpus[cpu as usize].is_put_off = false,
        EventKind::Arrival => {
            let takes = |one: &(u32, &Cpu)| !one.1.is_off;
            let other = (0..).zip(&machine.cpus).find(takes);
            let (other, _) = other.expect("one CPU stays");
            machine.push(at, EventKind::Arrival, other, argument);
        }
        // A CPU that leaves has handed over already what it was to look after.
        EventKind::Activate => machine.heir_came(),
        EventKind::ClockSet => clocks::let_another_tell(machine, at),
        // Lost on the way; a fault cannot hit it.
        _ => {}
    }
}

/// Brings `cpu` back at `at`, or at the end of the work that it executes. Returns the time from which on it executes.
pub(super) fn bring_back(machine: &mut Machine, cpu: u32, at: Picos) -> Picos {
    let state = &mut machine.cpus[cpu as usize];
    state.is_off = false;
    state.cursor = state.cursor.max(at);
    let from = state.cursor;
    machine.bring_up(cpu, from);
    if let Some(precise) = &mut machine.cpus[cpu as usize].precise {
        precise.online();
    }
    current_cpu::enter(cpu, machine.cpus[cpu as usize].cursor);
    record(machine, cpu, true);
    from
}

fn record(machine: &Machine, cpu: u32, online: bool) {
    machine.host().record(|| MachineEvent::CpuOnline {
        of_cpu: cpu,
        online,
    });
}
