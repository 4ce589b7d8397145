//! The time for which timers of other CPUs interrupt polling tasks on isolated CPUs, for each CPU.

use super::measure::{Effort, Measurement, Trial, both, micros, scenario};
use crate::baseline::{Isolation, Policy};
use crate::model::time::Picos;
use crate::run::outcome::Outcome;
use crate::run::scenario::Scenario;
use crate::workload::Workload;

/// The CPUs that suffer in the source, where the drivers run on CPUs 0 and 64.
const SUFFER: [u32; 2] = [1, 65];
/// The limit that only the CPUs in `SUFFER` exceed in the source.
const FLOOR: Picos = Picos::from_micros(10);

/// The CPUs that are not isolated.
const HOUSEKEEPING: [u32; 4] = [0, 32, 64, 96];

/// Measures the longest theft from pollers on isolated CPUs, with these in the hierarchy and without.
pub(super) fn isolation_noise(trial: &Trial<'_>) -> Measurement {
    of(trial, &setting(trial))
}

/// Measures the longest theft with the timers of drivers on all housekeeping CPUs.
pub(super) fn isolation_noise_all(trial: &Trial<'_>) -> Measurement {
    let mut scenario = setting(trial);
    for placed in &mut scenario.workloads {
        if matches!(placed.workload, Workload::Polls { .. }) {
            placed.cpus = HOUSEKEEPING.to_vec();
        }
    }
    of(trial, &scenario)
}

fn setting(trial: &Trial<'_>) -> Scenario {
    let mut scenario = scenario("isolation-noise", trial.profile);
    if trial.effort == Effort::Quick {
        scenario.duration = Picos::from_millis(1_000);
    }
    scenario
}

/// Measures the longest theft in a scenario, which may be another one.
fn of(trial: &Trial<'_>, scenario: &Scenario) -> Measurement {
    let take_part = Policy {
        isolation: Isolation::TakePart,
        ..scenario.policy
    };
    let with = trial.mechanism.choose(scenario.policy, take_part);
    let [baseline, with] = both(scenario, take_part, with, trial.seed);
    let disturbed: Vec<String> = suffering(&baseline)
        .map(|(cpu, theft)| format!("{cpu} ({theft:.0} us)"))
        .collect();
    let others = baseline.per_cpu.iter().map(|cpu| cpu.longest_theft);
    let others = others.filter(|theft| *theft <= FLOOR).max();
    let notes = format!(
        "Disturbed without isolation: CPUs {}; the others {:.1} us at most. The source has 1 and 65 worst, the others \
         3 to 10 us.",
        disturbed.join(", "),
        micros(others.unwrap_or(Picos::ZERO)),
    );
    Measurement {
        baseline: Some(worst(&baseline)),
        with: Some(worst(&with)),
        ratio: Some(worst(&baseline) / worst(&with)),
        spread: None,
        misfit: misfit(&baseline, &with),
        broken: with.broken.keys().map(|promise| promise.name()).collect(),
        notes,
    }
}

fn worst(outcome: &Outcome) -> f64 {
    let longest = outcome.per_cpu.iter().map(|cpu| cpu.longest_theft).max();
    micros(longest.unwrap_or(Picos::ZERO))
}

/// The CPUs from which more was stolen than from any other in the source.
fn suffering(outcome: &Outcome) -> impl Iterator<Item = (u32, f64)> {
    let suffering = outcome.per_cpu.iter();
    let suffering = suffering.filter(|cpu| cpu.longest_theft > FLOOR);
    suffering.map(|cpu| (cpu.cpu, micros(cpu.longest_theft)))
}

/// Describes the difference from the source in which CPUs suffer, if there is one.
fn misfit(baseline: &Outcome, with: &Outcome) -> Option<String> {
    let of = |outcome: &Outcome| suffering(outcome).map(|(cpu, _)| cpu).collect::<Vec<_>>();
    let (without_isolation, with_isolation) = (of(baseline), of(with));
    if without_isolation != SUFFER {
        return Some(format!(
            "CPUs {without_isolation:?} suffer, not {SUFFER:?}."
        ));
    }
    let suffers = !with_isolation.is_empty();
    suffers.then(|| format!("CPUs {with_isolation:?} suffer with isolation."))
}
