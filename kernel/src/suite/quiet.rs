//! Tests of idle: a CPU sleeps until it has a reason to wake up, and no interrupt comes without a reason.

use alloc::vec::Vec;

use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::Span;

use super::fixture::{Verdict, ensure, kept, timer};
use crate::console::say;
use crate::host::Local;
use crate::idle;
use crate::machine::Machine;
use crate::note::Count;
use crate::parameters::Parameters;

/// Counts the interrupts and sleeps of each CPU so far.
pub(super) fn counts(machine: &Machine) -> Vec<(u64, u64)> {
    let count = |(_, local): (_, &Local)| (local.interrupts.get(), local.sleeps.get());
    machine.host().cpus().map(count).collect()
}

/// Returns the differences of the counts since `before`.
pub(super) fn since(machine: &Machine, before: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let pairs = counts(machine).into_iter().zip(before);
    pairs
        .map(|(now, then)| (now.0 - then.0, now.1 - then.1))
        .collect()
}

/// One CPU sleeps for ten seconds; the others have nothing to do.
pub(super) fn silent(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    let before = counts(machine);
    idle::until_time(machine.now().saturating_add(Span::from_secs(10)));
    let did = since(machine, &before);
    let others: u64 = did[1..].iter().map(|did| did.0).sum();
    say!(
        "  in 10 s {} interrupt on CPU 0, {others} on the others",
        did[0].0
    );
    ensure!(
        did[0] == (1, 1),
        "CPU 0 had {} interrupts and slept {} times",
        did[0].0,
        did[0].1
    );
    ensure!(others == 0, "CPUs without a timer had {others} interrupts");
    Ok(())
}

/// Starts two timers at each of ten instants, which must cause ten wake-ups.
pub(super) fn instants(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let fired = kept(Count::default());
    let before = counts(machine);
    let begin = machine.now().saturating_add(Span::from_millis(20));
    for place in 0..20_u64 {
        let one = timer(Setup::new(), move |_| {
            fired.add(1);
            Restart::No
        });
        let after = Span::from_millis(place / 2 * 7);
        let _started = one.start(
            machine.timers,
            Start::at(begin.saturating_add(after)).pinned(),
        );
    }
    idle::until(|| fired.get() == 20);
    let did = since(machine, &before);
    say!(
        "  20 timers at 10 instants: {} interrupts, {} sleeps",
        did[0].0,
        did[0].1
    );
    ensure!(
        did[0] == (10, 10) || !parameters.is_exact,
        "it is one wake-up for each instant"
    );
    Ok(())
}
