//! The faults that hit one CPU at a time.

use tickless_core::hierarchy::{Leaving, Presence};
use tickless_core::platform::CpuId;

use crate::baseline::search::Searcher;
use crate::baseline::{Isolation, Target};
use crate::fault::{FaultKind, When};
use crate::machine::machine::Machine;
use crate::machine::queue::EventKind;
use crate::machine::reentrant::Callbacks;
use crate::machine::{clocks, hotplug, idle};
use crate::model::time::Picos;
use crate::record::MachineEvent;

/// Returns the kind and the amount of the fault with this number.
fn fault(machine: &Machine, index: u32) -> (FaultKind, Picos) {
    let fault = &machine.host().plan()[index as usize];
    (fault.kind, fault.amount)
}

fn draw_below(machine: &Machine, limit: u64) -> u64 {
    let faults = &machine.host().faults;
    faults
        .as_ref()
        .map_or(0, |faults| faults.borrow_mut().random.below(limit.max(1)))
}

/// Requests the first occurrence of each fault.
pub(super) fn plan(machine: &Machine) {
    for (index, fault) in (0_u32..).zip(machine.host().plan().iter()) {
        match fault.when {
            When::At(at) => machine.push(at, EventKind::Plan, 0, index),
            When::Every(every) => {
                let first = Picos(draw_below(machine, every.0));
                machine.push(first, EventKind::Plan, 0, index);
            }
            When::OneIn(_) => {}
        }
    }
}

/// Handles an occurrence of the fault `index`: requests the fault on the CPUs that it hits, and the next occurrence of
/// a repeated fault.
pub(super) fn moment_comes(machine: &mut Machine, at: Picos, index: u32) {
    let plan = machine.host().plan();
    let fault = &plan[index as usize];
    let When::Every(every) = fault.when else {
        if fault.kind.is_of_clocks() {
            clocks::fault_comes(machine, at, index);
            return;
        }
        for cpu in &fault.cpus {
            machine.push(at, EventKind::Fault, *cpu, index);
        }
        return;
    };
    let one = draw_below(machine, fault.cpus.len() as u64);
    let cpu = usize::try_from(one)
        .ok()
        .and_then(|one| fault.cpus.get(one));
    if fault.kind.is_of_clocks() {
        clocks::fault_comes(machine, at, index);
    } else if let Some(cpu) = cpu {
        machine.push(at, EventKind::Fault, *cpu, index);
    }
    let next = at + Picos(every.0 / 2) + Picos(draw_below(machine, every.0)).max(Picos(1));
    machine.push(next, EventKind::Plan, 0, index);
}

/// Lets the fault `index` hit `cpu`, which executes nothing at this moment. Returns true if the fault is over without
/// work of the CPU.
pub(super) fn hits_from_outside(machine: &mut Machine, cpu: u32, at: Picos, index: u32) -> bool {
    let (kind, amount) = fault(machine, index);
    let host = machine.host();
    match kind {
        _ if kind.spoils() => {
            if let Some(faults) = &host.faults {
                faults.borrow_mut().prepare(cpu, index as usize);
            }
        }
        FaultKind::Spurious => {
            host.count_fault(kind);
            host.push(at, EventKind::Spurious, cpu, 0);
        }
        FaultKind::Stall => {
            host.count_fault(kind);
            machine.stall(cpu, at, amount);
        }
        _ => return false,
    }
    true
}

/// Lets the fault `index` hit `cpu`, which executes an interrupt. The task that the interrupt stopped has `left` to
/// compute.
pub(super) fn hits(machine: &mut Machine, cpu: u32, index: u32, left: Picos) {
    let (kind, amount) = fault(machine, index);
    match kind {
        FaultKind::Isolate => toggle_isolation(machine, cpu),
        FaultKind::Offline => hotplug::take_off(machine, cpu, amount, left),
        FaultKind::Panic | FaultKind::Meddle => {
            let (timers, period) = (&machine.timers, machine.period);
            let callbacks = machine.callbacks.entry((index, cpu));
            let callbacks = callbacks.or_insert_with(|| Callbacks::new(timers, period, amount));
            if kind == FaultKind::Panic {
                callbacks.begin_to_panic();
            } else {
                callbacks.begin_to_reenter();
            }
        }
        _ => unreachable!("it hits from outside"),
    }
}

fn toggle_isolation(machine: &mut Machine, cpu: u32) {
    let becomes = !machine.isolated[cpu as usize];
    if becomes && !hotplug::others_keep_house(machine, cpu) {
        return;
    }
    // The CPU that changes that is awake.
    idle::leave(machine, cpu);
    let excludes = machine.policy.isolation == Isolation::Exclude;
    if excludes && machine.policy.target == Target::Local {
        let id = CpuId(cpu);
        let changed = if becomes {
            machine.tree.clear_available(id, Leaving::Isolation)
        } else {
            machine.tree.set_available(id, Presence::Awake)
        };
        assert_eq!(changed, Ok(()), "others are left");
    }
    machine.isolated[cpu as usize] = becomes;
    for state in &mut machine.cpus {
        state.searcher = Searcher::default();
    }
    let host = machine.host();
    host.checker.borrow_mut().isolated[cpu as usize] = becomes && excludes;
    host.local(cpu).is_isolated.set(becomes);
    host.record(|| MachineEvent::CpuIsolated {
        of_cpu: cpu,
        isolated: becomes && excludes,
    });
    host.count_fault(FaultKind::Isolate);
}
