//! Tests of CPUs whose own timer stops while they sleep, and of the comparator that wakes them.

use core::pin::Pin;

use alloc::vec::Vec;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Start};
use tickless_core::time::{Monotonic, Span};

use super::fixture::{Verdict, ensure, kept};
use crate::arch;
use crate::console::say;
use crate::deep;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::note::Count;
use crate::parameters::Parameters;

/// Timers of each CPU.
const TIMERS: u64 = 20;

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

/// The firings on each CPU, and the number of firings that were early.
static FIRED: [Count; 256] = [const { Count::new() }; 256];
static WRONG: Count = Count::new();

/// Starts the timers of the executing CPU; some have the same instants as timers of other CPUs.
fn start_all() {
    let machine = machine();
    let cpu = arch::cpu() as u64;
    for step in 1..=TIMERS {
        let place = if step % 4 == 0 { 0 } else { cpu };
        let after = Span::from_micros(2_000_000 + step * 1_000 + place * 130);
        let one = Pin::static_ref(kept(HrTimer::with_setup(
            Setup::new(),
            false,
            fire as Function,
        )));
        let _started = one.start(machine.timers, Start::after(after).pinned());
    }
}

fn fire(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let now = machine().host().time_of(arch::counter());
    WRONG.add(u64::from(now < expired.deadline()));
    FIRED[arch::cpu()].add(1);
    // The first CPU looks whether all have fired.
    arch::interrupt_cpu(0);
    Restart::No
}

/// All CPUs sleep with their timers stopped, the first one too: the comparator wakes each of them for its own timers.
pub(super) fn broadcast(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let host = machine.host();
    let cpus = machine.cpus();
    let counts = || -> Vec<[u64; 3]> {
        host.cpus()
            .map(|(_, local)| {
                [
                    local.timer_interrupts.get(),
                    local.deep_sleeps.get(),
                    local.broadcasts.get(),
                ]
            })
            .collect()
    };
    for cpu in 1..cpus {
        machine.call_on(cpu, start_all);
    }
    start_all();
    deep::allow(machine);
    // Those that sleep with their own timer come back, and sleep deeply.
    for cpu in 1..cpus {
        machine.call_on(cpu, || {});
    }
    let before = counts();
    let has_fired = |cpu: usize| FIRED[cpu].get() == TIMERS;
    idle::until(|| (0..cpus).all(has_fired));
    deep::forbid();
    // Those that sleep deeply come back, and sleep by their own timer.
    for cpu in 1..cpus {
        machine.call_on(cpu, || {});
    }
    let did: Vec<[u64; 3]> = counts()
        .into_iter()
        .zip(before)
        .map(|(now, then)| [now[0] - then[0], now[1] - then[1], now[2] - then[2]])
        .collect();
    let sum = |place: usize| -> u64 { did.iter().map(|did| did[place]).sum() };
    say!(
        "  {} timers of CPUs whose own is stopped: {} broadcasts, {} interrupts of own timers",
        TIMERS * cpus as u64,
        sum(2),
        sum(0)
    );
    ensure!(WRONG.get() == 0, "{} timers were early", WRONG.get());
    ensure!(did[0][2] == sum(2), "the comparator interrupts another CPU");
    ensure!(sum(1) >= cpus as u64, "CPUs hardly slept deeply");
    // Where time is the host's, a CPU may be awake when its timer is due.
    let awake = sum(0);
    ensure!(
        awake == 0 || !parameters.is_exact,
        "timers that are stopped fired {awake} times"
    );
    for cpu in 0..cpus {
        machine
            .timers
            .assert_valid(tickless_core::platform::CpuId(cpu as u32));
    }
    Ok(())
}
