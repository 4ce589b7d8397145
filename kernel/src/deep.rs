//! Deep idle of a PC: the local timer of a CPU stops, and a comparator of the HPET wakes the CPU.
//!
//! No emulated CPU has such a state, so the kernel imitates it: the CPU stops its local timer before it sleeps, and
//! switches the timer on again at the entry of the interrupt that ends the sleep.
//!
//! # Ground rules
//!
//! [`enter`] and [`leave`] execute masked, on the CPU itself. A CPU acquires [`PROGRAM`] before it asks for the instant
//! of the comparator, and holds the lock while it programs the comparator. Without the lock, an older, later instant
//! could overwrite a newer one. The comparator interrupts the first CPU, which sends interrupts to the others.

use tickless_core::link::lock::Lock;
use tickless_core::platform::CpuId;
use tickless_core::tick::{Broadcast, BroadcastExit, Carrier, Entered};
use tickless_core::time::{Instant, Span};

use crate::arch;
use crate::arch::CPUS_MAX;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::machine::Machine;
use crate::note::Note;

/// Words of a mask of all CPUs.
const WORDS: usize = CPUS_MAX / 64;

/// The CPUs that sleep deeply, and the times at which they have to wake up.
static SLEEPERS: Late<Broadcast<MaskingLock, WORDS>> = Late::new();
/// Orders the writes of the comparator.
static PROGRAM: Lock<MaskingLock, ()> = Lock::new(MaskingLock::new(), ());
/// True while idle CPUs sleep deeply.
static IS_WANTED: Note = Note::new();

/// Lets idle CPUs sleep deeply from now on.
pub(crate) fn allow(machine: &Machine) {
    let sleepers = match SLEEPERS.get() {
        Some(sleepers) => sleepers,
        None => SLEEPERS.set(alloc::boxed::Box::new(Broadcast::new())),
    };
    for cpu in 0..machine.cpus() {
        sleepers.online(CpuId(u32::try_from(cpu).unwrap_or(u32::MAX)), false);
    }
    let next = sleepers.set_carrier(machine.here(), Carrier::Oneshot, machine.now());
    program(machine, next);
    IS_WANTED.leave();
}

/// Makes CPUs that go idle from now on keep their own timer running.
pub(crate) fn forbid() {
    IS_WANTED.set(false);
}

/// Stops the timer of the executing CPU, which is about to sleep, and makes the comparator wake the CPU. Called masked.
pub(crate) fn enter(machine: &Machine) {
    if !IS_WANTED.is_there() {
        return;
    }
    let Some(sleepers) = SLEEPERS.get() else {
        return;
    };
    let (cpu, local) = (machine.here(), machine.host().here());
    let order = PROGRAM.lock(None);
    let Ok(entered) = sleepers.enter(cpu, machine.armed(arch::cpu())) else {
        // An interrupt is on its way: the CPU sleeps with its own timer running.
        return;
    };
    if let Entered::Program(when) = entered {
        program(machine, when);
    }
    drop(order);
    machine.timers.stop_device(cpu);
    local.is_deep.leave();
    local.deep_sleeps.add(1);
}

/// Switches the timer of the executing CPU on again, before any other work of the interrupt that ends the CPU's sleep.
pub(crate) fn leave(machine: &Machine) {
    let local = machine.host().here();
    let (true, Some(sleepers)) = (local.is_deep.take(), SLEEPERS.get()) else {
        return;
    };
    let cpu = machine.here();
    match sleepers.exit(cpu, machine.now()) {
        BroadcastExit::Program => {
            machine.timers.switch_device_on(cpu);
            machine.timers.retrigger(cpu);
        }
        BroadcastExit::SwitchOn => machine.timers.switch_device_on(cpu),
        BroadcastExit::WasAwake => {}
    }
}

/// Handles the interrupt of the comparator: wakes the other CPUs that are due. Returns true if the executing CPU is
/// due.
pub(crate) fn handle(machine: &Machine) -> bool {
    let Some(sleepers) = SLEEPERS.get() else {
        return false;
    };
    let order = PROGRAM.lock(None);
    let delivery = sleepers.handle(machine.here(), machine.now());
    program(machine, delivery.program);
    drop(order);
    for cpu in delivery.wake.iter() {
        let cpu = cpu.0 as usize;
        machine.host().local(cpu).is_called.leave();
        arch::interrupt_cpu(cpu);
    }
    delivery.own
}

/// Programs the comparator for `when`.
fn program(machine: &Machine, when: Instant) {
    let ahead = (!when.is_forever()).then(|| when.saturating_since(machine.now()));
    arch::set_broadcast(ahead.map(Span::as_nanos));
}
