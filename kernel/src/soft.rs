//! The soft stage of a CPU: callbacks with interrupts unmasked, for a limited time.
//!
//! The exit of an interrupt runs the stage on top of the code that it interrupted. That code waits for [`TIME`] at
//! most, and for the callbacks of one turn: a timer that restarts itself for the past would hold the code up for ever.
//! The rest of the work goes to a thread of ordinary priority where the CPU has [threads](crate::tasks). A CPU that
//! idles does the rest before it sleeps. Other code is interrupted again after a [pause](PAUSE).
//!
//! # Ground rules
//!
//! One stage runs at a time on a CPU, and no other thread is chosen before it ends. So the thread with the rest of the
//! work is preempted between its stages, and not inside of one.

use tickless_core::coarse::{PassEnd, WheelKind};
use tickless_core::hrtimer::Start;
use tickless_core::time::Span;

use crate::arch;
use crate::host::{Local, SOFT_BUDGET};
use crate::machine::Machine;

/// The time after which a stage begins no further turn.
pub(crate) const TIME: Span = Span::from_micros(50);
/// The time that interrupted code has until the rest of the work interrupts it: as much as a stage may take.
const PAUSE: Span = TIME;

/// Returns true if the CPU of `local` has work for a stage.
pub(crate) fn is_due(local: &Local) -> bool {
    local.is_soft_raised.is_there() || local.is_pass_due.is_there()
}

/// Runs a stage on the executing CPU. Called masked, and returns masked.
pub(crate) fn stage(machine: &Machine, local: &Local) {
    local.is_in_soft.set(true);
    arch::unmask();
    let end = machine.now().saturating_add(TIME);
    loop {
        turn(machine, local);
        if !is_due(local) || machine.now() >= end {
            break;
        }
    }
    arch::mask();
    local.is_in_soft.set(false);
}

/// Does a part of the work that is due.
pub(crate) fn turn(machine: &Machine, local: &Local) {
    local.soft_stages.add(1);
    let cpu = machine.here();
    if local.is_soft_raised.take() {
        let _report = machine.timers.soft_interrupt(cpu);
    }
    if local.is_pass_due.take() {
        let at = machine.count.now();
        let mut has_more = false;
        for kind in WheelKind::ALL {
            let pass = machine.timers.run_wheel(cpu, kind, at.tick, SOFT_BUDGET);
            has_more |= pass.end == PassEnd::Budget;
        }
        if machine.tree.remote_work_due(cpu, at.began) {
            let mut budget = SOFT_BUDGET;
            let pull = machine.tree.serve_remote(cpu, at.began, &mut budget);
            has_more |= pull.has_more;
        }
        if has_more {
            local.is_pass_due.leave();
        }
    }
}

/// Has the executing CPU, which neither idles nor has threads, interrupted for the rest of its work.
pub(crate) fn pause(machine: &Machine) {
    let _started = machine
        .pause()
        .start(machine.timers, Start::after(PAUSE).pinned());
}
