//! What starting an exact timer takes.

use super::measure::{Effort, Measurement, Trial, both, nanos, scenario};
use crate::baseline::{Policy, Rearm, Tree};
use crate::model::time::Picos;
use crate::run::outcome::Outcome;
use crate::workload::Workload;

/// The clock of the source, by that of the profile, in tenths of a gigahertz.
const CLOCKS: (f64, f64) = (20.0, 28.0);
/// The figure of the source, in nanoseconds.
const SOURCE: f64 = 50.0;
/// CPUs for a quick look.
const QUICK_CPUS: u32 = 8;

/// The mean over all starts of a hackbench run.
pub(super) fn start_cost(trial: &Trial<'_>) -> Measurement {
    let mut scenario = scenario("hackbench", trial.profile);
    if trial.effort == Effort::Quick {
        scenario.cpus = QUICK_CPUS;
        scenario.isolated.truncate(QUICK_CPUS as usize);
        scenario.tickless.truncate(QUICK_CPUS as usize);
        for placed in &mut scenario.workloads {
            placed.cpus.retain(|cpu| *cpu < QUICK_CPUS);
            if let Workload::Hackbench {
                groups, messages, ..
            } = &mut placed.workload
            {
                (*groups, *messages) = (2, 20);
            }
        }
    }
    let plain = Policy {
        tree: Tree::Plain,
        rearm: Rearm::Immediate,
        ..scenario.policy
    };
    let with = trial.mechanism.choose(scenario.policy, plain);
    let [baseline, with] = both(&scenario, plain, with, trial.seed);
    let mean = cost(&with);
    let counts = with.counts;
    let notes = format!(
        "The ratio is that of the source's 50 ns to the mean of {} starts, of {} in all: those of ticks that stop or \
         go on are made inside. {} of them kept their place; in the whole run devices were written {} times.",
        counts.timed_starts, counts.exact_starts, counts.exact_in_place, counts.device_writes,
    );
    Measurement {
        baseline: Some(cost(&baseline)),
        with: Some(mean),
        // Of the figure of the source: there is no ratio to compare with.
        ratio: Some(SOURCE / mean),
        spread: None,
        misfit: None,
        broken: with.broken.keys().map(|promise| promise.name()).collect(),
        notes,
    }
}

/// The mean, at the clock of the source.
fn cost(outcome: &Outcome) -> f64 {
    let counts = outcome.counts;
    let mean = Picos(counts.starting.0 / counts.timed_starts.max(1));
    nanos(mean) * CLOCKS.1 / CLOCKS.0
}
