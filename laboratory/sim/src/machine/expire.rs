//! The work of a CPU in an interrupt of its device, at its tick, and in the soft stage.

use tickless_core::coarse::{PassEnd, WheelKind};
use tickless_core::event::Flush;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};

use crate::baseline::{Rearm, Soft};
use crate::fault::FaultKind;
use crate::machine::host::Host;
use crate::machine::machine::Machine;
use crate::machine::rearm;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::{Promise, idle_stays_idle};
use crate::record::MachineEvent;

/// Handles an interrupt of the device of `cpu`, which executes, at `at`. `is_unasked` is true if the device was not
/// programmed for this interrupt.
pub(super) fn device_fires(machine: &Machine, cpu: u32, at: Picos, is_unasked: bool) {
    let host = machine.host();
    let local = host.local(cpu);
    local.fires.set(Picos::FOREVER);
    let is_held = !is_unasked && local.fault.held_until.take() != Picos::ZERO;
    let is_early = local.fault.is_early.replace(false);
    if is_early {
        host.count_fault(FaultKind::Early);
    }
    wakes_in_time(machine, cpu, at, is_early || is_held || is_unasked);
    local.programmings.set(0);
    let _report = machine.timers.interrupt(CpuId(cpu));
    rearm::owe(host, cpu);
    if machine.policy.rearm == Rearm::Immediate {
        rearm::pay_if_owed(&machine.timers, cpu, Flush::KernelExit);
    }
    let mut checker = host.checker.borrow_mut();
    checker.counts.interrupts += 1;
    checker.tallies.count(cpu, |tally| tally.interrupts += 1);
    drop(checker);
    if local.soft_raised.replace(false) {
        rearm::pay_if_owed(&machine.timers, cpu, Flush::SoftWork);
        let _soft = machine.timers.soft_interrupt(CpuId(cpu));
    }
}

/// Checks an interrupt of the device of `cpu` at `at`. `is_wrong` is true if the device was not expected to fire then,
/// because of a fault for example.
fn wakes_in_time(machine: &Machine, cpu: u32, at: Picos, is_wrong: bool) {
    let host = machine.host();
    let local = host.local(cpu);
    let is_left_armed = local.fault.is_left_armed.replace(false);
    let is_known = is_wrong
        || is_left_armed
        || local.written.may_be_early.get()
        || host.is_armed_for_old_clock(cpu);
    if is_known {
        return;
    }
    misses(host, cpu, at);
    let asked = machine.cpus[cpu as usize].wakes_at;
    // Once: this interrupt arms it for what is first.
    let left = machine.cpus[cpu as usize].left_armed.take();
    let slop = host.slop(cpu, asked);
    let wrong = idle_stays_idle::woken(at, asked, slop, local.written.at.get(), left);
    if left.is_some() && at + slop < asked && wrong.is_none() {
        host.checker.borrow_mut().counts.lazy_wakes += 1;
    }
    host.check(Promise::IdleStaysIdle, cpu, wrong);
}

/// Counts the distance of the interrupt of `cpu` at `at` from its device's deadline, if the clock did not change in
/// between.
fn misses(host: &Host, cpu: u32, at: Picos) {
    let local = host.local(cpu);
    if host.clocks.changed_since(local.written.at.get()) {
        return;
    }
    let written = host.clocks.shows(cpu, local.written.at.get());
    let is_ahead = |asked_for: &Instant| written < *asked_for;
    let Some(asked_for) = local.asked_for.get().filter(is_ahead) else {
        return;
    };
    let shows = host.clocks.shows(cpu, at);
    let counts = &mut host.checker.borrow_mut().counts;
    let by = |span: Span| Picos::from_nanos(span.as_nanos());
    if shows < asked_for {
        counts.device_early += 1;
        let early = by(asked_for.saturating_since(shows));
        counts.device_early_by = counts.device_early_by.max(early);
    } else {
        let late = by(shows.saturating_since(asked_for));
        counts.device_late_by = counts.device_late_by.max(late);
    }
}

/// Handles a timer interrupt of `cpu` at `at` for which the device was not programmed. With `is_rescue` the interrupt
/// comes in place of a lost one.
pub(super) fn device_fires_unasked(machine: &Machine, cpu: u32, at: Picos, is_rescue: bool) {
    if is_rescue {
        let fault = &machine.host().local(cpu).fault;
        fault.rescue.set(Picos::FOREVER);
    }
    device_fires(machine, cpu, at, true);
}

/// Lets the executing `cpu` do, at `at`, the work of the interrupt of its own device, which has stopped.
pub(super) fn called(machine: &Machine, cpu: u32, at: Picos) {
    let host = machine.host();
    host.local(cpu).awaits_call.set(false);
    host.checker.borrow_mut().counts.broadcasts += 1;
    device_fires(machine, cpu, at, true);
}

/// Handles an interrupt, at `at`, of the device that wakes other CPUs; the interrupted `cpu` executes.
pub(super) fn broadcast_fires(machine: &Machine, cpu: u32, at: Picos) {
    let wakener = machine.wakener.as_ref();
    if wakener.is_some_and(|wakener| wakener.device_fires()) {
        called(machine, cpu, at);
    }
}

/// Does the work of the tick of the CPU that executes. The tick fired, and found out whether timers are due.
pub(super) fn tick(machine: &Machine, wheel_is_due: bool, remote_is_due: bool) {
    let cpu = current_cpu::cpu();
    let charges = &machine.model.charges;
    current_cpu::charge(charges.tick);
    let host = machine.host();
    host.checker.borrow_mut().counts.ticks += 1;
    current_cpu::charge(charges.soft_check);
    host.local(cpu).told.write(&machine.model, 1);
    let runs = match machine.policy.soft {
        Soft::FirstDue => wheel_is_due || remote_is_due,
        Soft::Unconditional => true,
        Soft::Bitmap => {
            remote_is_due || current_cpu::looking(|| machine.timers.wheel_pending(CpuId(cpu))) > 0
        }
    };
    if runs {
        soft_stage(machine, cpu);
    }
}

/// Runs the due coarse timers of `cpu`, which executes, and the due ones of the CPUs for which it expires timers.
pub(super) fn soft_stage(machine: &Machine, cpu: u32) {
    rearm::pay_if_owed(&machine.timers, cpu, Flush::SoftWork);
    let host = machine.host();
    let charges = &machine.model.charges;
    let vec = "TIMER";
    host.record(|| MachineEvent::SoftirqEntry { vec });
    current_cpu::charge(charges.soft_raise);
    current_cpu::charge(if machine.real_time {
        charges.soft_thread
    } else {
        charges.soft_run
    });
    host.checker.borrow_mut().counts.soft_stages += 1;
    let now = machine.tick_time().tick;
    for kind in WheelKind::ALL {
        let pass = machine.timers.run_wheel(CpuId(cpu), kind, now, u32::MAX);
        debug_assert!(pass.end != PassEnd::Budget, "there is no budget");
    }
    let now = machine.tick_time().began;
    if machine.tree.remote_work_due(CpuId(cpu), now) {
        let mut budget = u32::MAX;
        let _pull = machine.tree.serve_remote(CpuId(cpu), now, &mut budget);
    }
    host.record(|| MachineEvent::SoftirqExit { vec });
}
