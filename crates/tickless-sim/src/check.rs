//! The promises, looked at from outside.

use tickless_core::platform::CpuId;

use crate::machine::{Config, Machine};

/// Everything that must hold whenever no base is locked and no interrupt is under way (spec 4.7), against the devices.
///
/// # Panics
///
/// When something does not hold.
pub fn invariants<C: Config>(machine: &Machine<C>) {
    for cpu in 0..machine.cpus() {
        machine.timers().assert_valid(CpuId(cpu));
        armed_not_later_than_first(machine, cpu);
    }
}

/// INV-1, against the device itself: it fires when the first timer is due, or before.
fn armed_not_later_than_first<C: Config>(machine: &Machine<C>, cpu: u32) {
    let state = machine.cpu(cpu);
    let base = state.base.get().expect("every CPU has a base");
    if !base.is_online() || state.rearm_owed.get() || state.depth.get() > 0 || state.kicked.get() {
        return;
    }
    if machine.timers().is_backing_off(CpuId(cpu)) {
        return;
    }
    let first = machine.timers().next_event(CpuId(cpu));
    if first.is_forever() {
        return;
    }
    let fires = machine.fires_at(cpu);
    let shows = fires.map(|at| machine.monotonic_at(at));
    let latest = first.as_nanos().max(machine.monotonic().as_nanos()) + state.device.tolerance();
    assert!(
        shows.is_some_and(|shows| shows <= latest),
        "INV-1: the first timer of CPU {cpu} is due at {first:?}, but its device fires at {shows:?}"
    );
}
