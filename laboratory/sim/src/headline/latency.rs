//! Two claims about the soft stage, which compare a run at each tick with a run only when there is work.

use tickless_conformance::random::Random;

use super::measure::{Effort, Measurement, Runs, Trial, both, micros, scenario};
use crate::baseline::{Policy, Soft};
use crate::model::time::Picos;
use crate::run::outcome::Outcome;
use crate::run::runner::run;
use crate::run::scenario::Scenario;

/// The soft stages that each policy ran.
#[derive(Default)]
struct Stages {
    baseline: u64,
    with: u64,
}

/// The worst latency of a sleeper on an isolated CPU over many runs, each of which starts at another moment of the
/// tick. `besides` is told the seed of each run.
fn worst(
    trial: &Trial<'_>,
    scenario: &Scenario,
    with: Soft,
    mut besides: impl FnMut(u64),
) -> (Runs, Stages, u32) {
    let runs_max = match trial.effort {
        Effort::Full => 200,
        Effort::Quick => 60,
    };
    let mut random = Random::new(trial.seed);
    let (mut runs, mut stages) = (Runs::default(), Stages::default());
    for _ in 0..runs_max {
        let seed = random.bits();
        let unconditional = with_soft(scenario, Soft::Unconditional);
        let [baseline, with] = both(scenario, unconditional, with_soft(scenario, with), seed);
        stages.baseline += baseline.counts.soft_stages;
        stages.with += with.counts.soft_stages;
        runs.add(micros(latency(&baseline)), micros(latency(&with)), &with);
        besides(seed);
    }
    (runs, stages, runs_max)
}

fn with_soft(scenario: &Scenario, soft: Soft) -> Policy {
    Policy {
        soft,
        ..scenario.policy
    }
}

fn latency(outcome: &Outcome) -> Picos {
    let latency = outcome.series("latency");
    latency.map_or(Picos::ZERO, |latency| latency.max())
}

fn tried(trial: &Trial<'_>, name: &str) -> Scenario {
    let mut scenario = scenario(name, trial.profile);
    scenario.duration = match trial.effort {
        Effort::Full => Picos::from_millis(200),
        Effort::Quick => Picos::from_millis(20),
    };
    scenario
}

/// The bitmap of 2019 under the conditions of its mail.
pub(super) fn of_the_mail(trial: &Trial<'_>) -> Measurement {
    let scenario = tried(trial, "softirq-mail");
    let with = trial.mechanism.choose(Soft::Bitmap, Soft::Unconditional);
    let (runs, stages, count) = worst(trial, &scenario, with, |_| {});
    let notes = format!(
        "Worst of {count} runs, each with another phase to the tick. Soft stages: {} at each tick, {} with the bitmap.",
        stages.baseline, stages.with,
    );
    runs.maxima(notes)
}

/// The first-due check of 2020 under a harder load.
pub(super) fn of_the_successor(trial: &Trial<'_>) -> Measurement {
    let scenario = tried(trial, "softirq-latency");
    let with = trial.mechanism.choose(Soft::FirstDue, Soft::Bitmap);
    let (mut bitmap, mut bitmap_stages) = (Picos::ZERO, 0);
    let mut with_bitmap = scenario.clone();
    with_bitmap.policy = with_soft(&scenario, Soft::Bitmap);
    let (runs, stages, count) = worst(trial, &scenario, with, |seed| {
        let outcome = run(&with_bitmap, seed);
        bitmap = bitmap.max(latency(&outcome));
        bitmap_stages += outcome.counts.soft_stages;
    });
    let notes = format!(
        "Worst of {count} runs, each with another phase to the tick; with the bitmap {:.1} us. Soft stages: {} at each \
         tick, {bitmap_stages} with the bitmap, {} when due.",
        micros(bitmap),
        stages.baseline,
        stages.with,
    );
    runs.maxima(notes)
}
