//! Tests of CPUs that go offline and come back.

use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart, Start};
use tickless_core::time::{Monotonic, Span};

use super::fixture::{Verdict, ensure};
use crate::arch;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::note::Count;
use crate::parameters::Parameters;

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The number of the CPU on which [`ORPHAN`] fired, plus one.
static FIRED_ON: Count = Count::new();
static ORPHAN: HrTimer<Function> = HrTimer::new(|_| {
    FIRED_ON.set(1 + arch::cpu() as u64);
    // CPU 0 waits for it, wherever it fires.
    arch::interrupt_cpu(0);
    Restart::No
});

fn start() {
    let after = Span::from_millis(10);
    let _started = Pin::static_ref(&ORPHAN).start(machine().timers, Start::after(after).pinned());
}

/// A CPU goes offline, and its timer fires on another CPU, in time. When the CPU comes back, its next timer fires
/// there.
pub(super) fn hotplug(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    machine.call_on(1, || {
        start();
        machine_here().offline();
    });
    ensure!(!machine.is_online(1), "CPU 1 did not leave");
    idle::until(|| FIRED_ON.get() != 0);
    ensure!(
        FIRED_ON.get() == 1,
        "the timer of CPU 1 fired on CPU {}",
        FIRED_ON.get() - 1
    );
    FIRED_ON.set(0);
    machine.call_on(1, || {
        machine_here().online();
        start();
    });
    idle::until(|| FIRED_ON.get() != 0);
    ensure!(
        FIRED_ON.get() == 2,
        "CPU 1 is back, and its timer fired on CPU {}",
        FIRED_ON.get() - 1
    );
    let valid = || machine.timers.assert_valid(machine.here());
    valid();
    Ok(())
}

fn machine_here() -> &'static Machine {
    machine()
}
