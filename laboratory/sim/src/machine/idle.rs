//! A CPU's steps into an idle state and out of it: the core's forecast, the governor's choice, and the exit (spec C-3.2
//! to C-3.5, C-7.7).

use std::rc::Rc;

use tickless_core::event::Flush;
use tickless_core::hrtimer::Start;
use tickless_core::platform::CpuId;
use tickless_core::tick::{
    Dependencies, Dependency, StoppedTick, TickDependencies, first_dependency,
};
use tickless_core::time::{Instant, Offset, Span};

use crate::baseline::Governor;
use crate::machine::machine::Machine;
use crate::machine::timers::Operations;
use crate::machine::{broadcast, clocks, rearm};
use crate::model::current_cpu;
use crate::model::governor::choose;
use crate::model::time::Picos;
use crate::promise::Promise;
use crate::promise::idle_stays_idle::LeftArmed;
use crate::record::MachineEvent;

/// Enters idle on `cpu`, which executes and has nothing left to run. Called again after each interrupt after which the
/// CPU still has nothing to run.
pub(super) fn enter(machine: &mut Machine, cpu: u32) {
    machine.end_slice(cpu);
    machine.host().local(cpu).needs_reschedule.set(false);
    // Interrupts that leave it without work, those of its tick among them, do not end what is to be expected.
    let since = &mut machine.cpus[cpu as usize].workless_since;
    let since = *since.get_or_insert(current_cpu::cursor());
    let ticks = Rc::clone(&machine.ticks);
    let nohz = ticks.nohz();
    let mut tick = ticks.of(cpu);
    let timer = machine.cpus[cpu as usize].tick.pinned();
    nohz.enter_idle(&mut tick);
    let forecast = nohz.forecast(&tick, TickDependencies::default());
    let now = machine.host().shows();
    let sleep = nohz.sleep_length(&tick, timer, forecast, now);
    let mut length = picos(sleep.own);
    // A governor that expects an interrupt within a tick lets it run (spec C-7.7).
    let sleeps = machine.cpus[cpu as usize].sleeps;
    if machine.policy.governor == Governor::History
        && let Some(usual) = sleeps.usual(current_cpu::cursor() - since)
    {
        length = length.min(usual);
    }
    let keeps = !tick.is_stopped() && length < machine.period;
    let stopped = if keeps {
        None
    } else {
        nohz.stop(&mut tick, timer, forecast).ok()
    };
    let is_stopped = tick.is_stopped();
    drop(tick);
    settle(machine, cpu, since);
    rearm::pay_if_owed(&machine.timers, cpu, Flush::KernelExit);
    let mut wakes_at = Picos::ZERO;
    if let Some(stopped) = stopped {
        tick_stopped(machine, cpu, stopped);
        // Or for its exact timers.
        let own = Span::from_nanos(u64::try_from(sleep.own.as_nanos()).unwrap_or(0));
        wakes_at = machine
            .host()
            .moment(stopped.wake.min(now.saturating_add(own)));
    } else if !is_stopped {
        // It has its tick, and asked for nothing else.
        let armed = machine.host().base_of(cpu).armed();
        let device = Picos::of_instant(armed).saturating_sub(Picos::of_instant(now));
        length = match machine.policy.governor {
            Governor::NextEvent => device,
            Governor::History => length.min(device),
        };
        // Unless its device was left to fire once for nothing: then it asked for nothing else before its first timer.
        if machine.cpus[cpu as usize].left_armed.get().is_some() {
            let first = current_cpu::looking(|| machine.timers.next_event(CpuId(cpu)));
            wakes_at = machine.host().moment(first);
        }
    }
    machine.cpus[cpu as usize].wakes_at = wakes_at;
    let chosen = choose(&machine.states, length);
    let chosen = clocks::without_counter(machine, chosen);
    let idle = broadcast::go_deep(
        machine.wakener.as_deref(),
        &machine.timers,
        &machine.states,
        cpu,
        chosen,
    );
    falls_asleep(machine, cpu, idle);
}

/// Notes that the executing `cpu` is in the state `idle` from here on.
fn falls_asleep(machine: &mut Machine, cpu: u32, idle: usize) {
    let state = &mut machine.cpus[cpu as usize];
    state.idle = Some(idle);
    state.idle_since = current_cpu::cursor();
    let host = machine.host();
    host.local(cpu).idle.set(true);
    host.record(|| {
        let wakes = host.base_of(cpu).armed();
        MachineEvent::CpuIdle {
            state: Some(machine.states[idle].name.clone()),
            wakes: (!wakes.is_forever()).then(|| wakes.as_nanos()),
        }
    });
}

/// Decides whether to write the device of `cpu`, which executes, has had nothing to run since `since`, and is about to
/// sleep: the device may be armed for a slice that is over (spec LAZY-7). The device is written if the CPU will
/// probably sleep until the device fires. A saved write is worth more than a wake-up that probably does not come, and
/// less than a wake-up that does come.
fn settle(machine: &Machine, cpu: u32, since: Picos) {
    let state = &machine.cpus[cpu as usize];
    state.left_armed.set(None);
    if state.slice.is_none() && state.precise.is_none() {
        return;
    }
    let host = machine.host();
    let armed = host.base_of(cpu).armed();
    // What is owed is written anyway.
    if machine.policy.governor == Governor::NextEvent || host.local(cpu).owes_rearm.get() {
        // The sleep is expected to last until the next event.
        let _armed = machine.timers.settle_armed(CpuId(cpu));
        return;
    }
    let charges = &machine.model.charges;
    current_cpu::charge(charges.load);
    if current_cpu::looking(|| machine.timers.next_event(CpuId(cpu))) <= armed {
        return;
    }
    let fires = host.moment(armed);
    let lead = fires.saturating_sub(current_cpu::cursor());
    let exit = machine
        .states
        .last()
        .map_or(Picos::ZERO, |deepest| deepest.exit);
    let wake = charges.device_fire + charges.irq_kernel + exit;
    let slept = current_cpu::cursor() - since;
    let sleeps = state.sleeps;
    if sleeps.pays_to_write(slept, lead, charges.device_write, wake) {
        let _armed = machine.timers.settle_armed(CpuId(cpu));
    } else {
        let written = host.local(cpu).written.at.get();
        state.left_armed.set(Some(LeftArmed { fires, written }));
    }
}

fn tick_stopped(machine: &Machine, cpu: u32, stopped: StoppedTick) {
    if stopped.was_ticking {
        machine.host().checker.borrow_mut().counts.idle_entries += 1;
    }
    if machine.breaks(Promise::Covered) {
        // As if it had told no group what it has.
        machine.tree.leave_idle(CpuId(cpu));
        let _cover = machine.tree.enter_idle(CpuId(cpu), Instant::FOREVER);
    }
    if machine.breaks(Promise::IdleStaysIdle) {
        let soon = machine.host().shows();
        let soon = soon.saturating_add(Span::from_nanos(machine.period.as_nanos()));
        machine.cpus[cpu as usize].tick.start(Start::at(soon));
    }
}

/// Notes that the executing `cpu` leaves idle, or leaves a task that ran without a tick, and starts the CPU's tick.
pub(super) fn leave(machine: &mut Machine, cpu: u32) {
    let conditions = TickDependencies {
        reschedule: true,
        ..TickDependencies::default()
    };
    machine.run_task(cpu, conditions);
}

/// Notes that the executing `cpu` continues its task, which may run without a tick.
pub(super) fn run_on(machine: &mut Machine, cpu: u32) {
    let keeps = machine.ends_at_tick(cpu);
    let state = &machine.cpus[cpu as usize];
    if state.waiting.is_empty() && !keeps {
        state.dependencies.clear(Dependency::Scheduler);
    } else {
        // It looks at once.
        let _is_first = state.dependencies.set(Dependency::Scheduler);
    }
    let none = Dependencies::new();
    let task = state.current.map(|task| &machine.tasks[task as usize]);
    let task = task.map_or(&none, |task| &task.dependencies);
    let dependency = first_dependency(&none, &state.dependencies, task, &none);
    let conditions = TickDependencies {
        dependency: dependency.is_some(),
        ..TickDependencies::default()
    };
    machine.run_task(cpu, conditions);
}

/// Converts an offset to a time; zero if the offset is negative.
fn picos(length: Offset) -> Picos {
    Picos::from_nanos(u64::try_from(length.as_nanos()).unwrap_or(0))
}
