//! The slow counter that all CPUs share, read directly: the half of two claims that needs nothing of the core.

use super::measure::{Effort, Measurement, Trial, scenario};
use crate::model::time::Picos;
use crate::run::outcome::Outcome;
use crate::run::runner::run;

/// The same load where the clock is the slow counter, and where it costs nothing to speak of.
fn slow_and_fast(trial: &Trial<'_>) -> (Outcome, Outcome) {
    let mut scenario = scenario("compute", trial.profile);
    if trial.effort == Effort::Quick {
        scenario.duration = Picos::from_millis(60);
    }
    let slow = run(&scenario, trial.seed);
    scenario.slow_counter = false;
    (slow, run(&scenario, trial.seed))
}

fn direct(baseline: f64, slow: &Outcome, notes: String) -> Measurement {
    let broken = slow.broken.keys().map(|promise| promise.name());
    Measurement {
        baseline: Some(baseline),
        with: None,
        ratio: None,
        spread: None,
        misfit: None,
        broken: broken.collect(),
        notes,
    }
}

fn jobs(outcome: &Outcome) -> f64 {
    outcome.jobs_per_minute().unwrap_or(0) as f64
}

/// Jobs per minute.
pub(super) fn throughput(trial: &Trial<'_>) -> Measurement {
    let (slow, fast) = slow_and_fast(trial);
    let lost = 100.0 - jobs(&slow) / jobs(&fast) * 100.0;
    let notes = format!(
        "With a fast counter it is {:.0} here, and 1042431 in the source. Direct reads cost {lost:.1} % of the jobs \
         here and 23.4 % in the source, of which its own figures explain 11.2 by the reads; the rest it does not break \
         down.",
        jobs(&fast),
    );
    direct(jobs(&slow), &slow, notes)
}

/// The share of CPU time in the read.
pub(super) fn share(trial: &Trial<'_>) -> Measurement {
    let (slow, _) = slow_and_fast(trial);
    let reads = slow.counts.clock_reads.max(1);
    let mean = Picos(slow.counts.clock_reading.0 / reads);
    let ticks = slow.counts.ticks.max(1) as f64;
    let notes = format!(
        "A read takes {mean} on average, and each CPU does {:.2} for each tick; the serial part of a read is in the \
         profile, and was fitted to the source by 3 reads at each tick.",
        reads as f64 / ticks,
    );
    direct(slow.clock_reading_ppm() as f64 / 1e4, &slow, notes)
}
