//! Tests of the set of isolated CPUs, which changes as a whole while all CPUs tick and sleep.

use alloc::vec::Vec;

use tickless_core::hierarchy::Refused;
use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::Span;

use super::coarse;
use super::fixture::{Verdict, ensure, timer};
use crate::arch;
use crate::arch::CPUS_MAX;
use crate::console::say;
use crate::idle;
use crate::machine::{Machine, machine};
use crate::note::Count;
use crate::parameters::Parameters;

/// The number of the CPU on which the timer of each CPU fired, plus one.
static FIRED_ON: [Count; CPUS_MAX] = [const { Count::new() }; CPUS_MAX];

/// Starts a timer that may move, on the executing CPU.
fn start() {
    let own = &FIRED_ON[arch::cpu()];
    let one = timer(Setup::new(), move |_| {
        own.set(1 + arch::cpu() as u64);
        arch::interrupt_cpu(0);
        Restart::No
    });
    let _started = one.start(machine().timers, Start::after(Span::from_millis(20)));
}

fn isolated(machine: &Machine) -> Vec<usize> {
    let cpus = machine.host().cpus();
    let isolated = cpus.filter(|(_, local)| local.is_isolated.is_there());
    isolated.map(|(cpu, _)| cpu).collect()
}

/// Isolation changes for a set of CPUs: those whose isolation ends join before others leave, a set of all CPUs is
/// refused and changes nothing, and the timers of isolated CPUs fire elsewhere.
pub(super) fn set(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let cpus = machine.cpus();
    coarse::ticking(machine, || {
        let available = |cpu: usize| machine.host().local(cpu).available.get();
        let first = machine.isolate_set(&|cpu| cpu == 2 || cpu == 3);
        ensure!(first == Ok(2), "CPUs 2 and 3 are not isolated: {first:?}");
        // A timer of another CPU goes behind this one: none becomes the first of a CPU that sleeps (spec LOC-13).
        let soonest = timer(Setup::new(), |_| Restart::No);
        let _started = soonest.start(machine.timers, Start::after(Span::from_millis(10)).pinned());
        for cpu in 1..cpus {
            machine.call_on(cpu, start);
        }
        idle::until(|| FIRED_ON[1..cpus].iter().all(|on| on.get() != 0));
        for cpu in [2, 3] {
            let on = FIRED_ON[cpu].get() - 1;
            ensure!(
                !(2..=3).contains(&on),
                "a timer of CPU {cpu} fired on CPU {on}"
            );
        }
        // The isolation of CPU 2 ends, and that of CPU 1 begins.
        let second = machine.isolate_set(&|cpu| cpu == 1 || cpu == 3);
        ensure!(second == Ok(2), "the set does not change: {second:?}");
        ensure!(
            isolated(machine) == [1, 3],
            "isolated are {:?}",
            isolated(machine)
        );
        let (joined, left) = (available(2), available(1));
        let others = cpus as u64 - 2;
        ensure!(
            (joined, left) == (others + 1, others),
            "{joined} CPUs served others when one had joined, and {left} when one had left"
        );
        let all = machine.isolate_set(&|_| true);
        ensure!(
            all == Err(Refused::LastAvailable),
            "all CPUs are isolated: {all:?}"
        );
        ensure!(
            isolated(machine) == [1, 3],
            "a refused set changed something: {:?}",
            isolated(machine)
        );
        // All but the last: the first CPU isolates itself.
        let most = machine.isolate_set(&|cpu| cpu + 1 != cpus);
        let none = machine.isolate_set(&|_| false);
        let count = cpus as u32 - 1;
        // CPU 1 was isolated before, and of four CPUs CPU 3, too.
        let changed = if cpus == 4 { 3 } else { count - 2 };
        ensure!(
            (most, none) == (Ok(changed), Ok(count)),
            "all but one: {most:?}, and none: {none:?}"
        );
        say!("  {cpus} CPUs: two of them, two others, all (refused), all but one, none");
        Ok(())
    })
}
