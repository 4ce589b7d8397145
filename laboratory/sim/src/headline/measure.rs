//! The runs that test the claims.

use std::collections::BTreeSet;

use tickless_conformance::random::Random;

use crate::baseline::{Policy, Target};
use crate::model::profile::Profile;
use crate::model::time::Picos;
use crate::run::outcome::Outcome;
use crate::run::runner::run;
use crate::run::scenario::Scenario;
use crate::workload::Workload;

/// The length of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A trial as long as the source's own measurement.
    Full,
    /// The shortest trial that shows the effect.
    Quick,
}

/// The state of the mechanism that a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// The mechanism is on, as in the library.
    On,
    /// The mechanism is off: the control, with which a claim must not hold.
    Off,
}

impl Mechanism {
    /// Returns `on` with the mechanism, `off` without.
    pub(super) fn choose<T>(self, on: T, off: T) -> T {
        match self {
            Self::On => on,
            Self::Off => off,
        }
    }
}

/// The arguments of one trial of a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    pub(super) seed: u64,
    pub(super) effort: Effort,
    pub(super) mechanism: Mechanism,
    pub(super) profile: &'a Profile,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measurement {
    pub(super) baseline: Option<f64>,
    /// The figure with the mechanism; `None` if the measurement needs a part that does not exist yet.
    pub(super) with: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) spread: Option<(f64, f64)>,
    /// The difference from the source besides the ratio, if there is one.
    pub(super) misfit: Option<String>,
    pub(super) broken: Vec<&'static str>,
    pub(super) notes: String,
}

impl Measurement {
    pub(super) const fn ratio(&self) -> Option<f64> {
        self.ratio
    }
}

const FILES: [(&str, &str); 7] = [
    ("compute", include_str!("../../scenarios/compute.toml")),
    ("enqueue", include_str!("../../scenarios/enqueue.toml")),
    (
        "idle-residency",
        include_str!("../../scenarios/idle-residency.toml"),
    ),
    (
        "softirq-latency",
        include_str!("../../scenarios/softirq-latency.toml"),
    ),
    (
        "isolation-noise",
        include_str!("../../scenarios/isolation-noise.toml"),
    ),
    ("hackbench", include_str!("../../scenarios/hackbench.toml")),
    (
        "softirq-mail",
        include_str!("../../scenarios/softirq-mail.toml"),
    ),
];

/// Returns a scenario that comes with the library.
pub(super) fn scenario(name: &str, profile: &Profile) -> Scenario {
    let (name, text) = FILES
        .into_iter()
        .find(|(known, _)| *known == name)
        .expect("claims name scenarios that there are");
    let scenario = Scenario::from_toml(text, name);
    let mut scenario = scenario.expect("embedded scenarios are tried by a test");
    scenario.profile = profile.clone();
    scenario
}

/// Runs a scenario with two policies and the same seed.
pub(super) fn both(scenario: &Scenario, baseline: Policy, with: Policy, seed: u64) -> [Outcome; 2] {
    [baseline, with].map(|policy| {
        let mut scenario = scenario.clone();
        scenario.policy = policy;
        run(&scenario, seed)
    })
}

/// The only place where times become numbers without a unit, for reports.
pub(super) fn in_unit(time: Picos, unit: Picos) -> f64 {
    time.0 as f64 / unit.0 as f64
}

pub(super) fn nanos(time: Picos) -> f64 {
    in_unit(time, Picos::from_nanos(1))
}

pub(super) fn micros(time: Picos) -> f64 {
    in_unit(time, Picos::from_micros(1))
}

/// Collects runs.
#[derive(Default)]
pub(super) struct Runs {
    baseline: Vec<f64>,
    with: Vec<f64>,
    broken: BTreeSet<&'static str>,
}

impl Runs {
    pub(super) fn add(&mut self, baseline: f64, with: f64, outcome: &Outcome) {
        self.baseline.push(baseline);
        self.with.push(with);
        self.broken
            .extend(outcome.broken.keys().map(|promise| promise.name()));
    }

    /// Returns the mean of each figure, and the ratios of the runs.
    fn means(self, notes: String) -> Measurement {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (baseline, with) = (mean(&self.baseline), mean(&self.with));
        let ratios = self
            .baseline
            .iter()
            .zip(&self.with)
            .map(|(worse, better)| worse / better);
        let least = ratios.clone().fold(f64::INFINITY, f64::min);
        let greatest = ratios.fold(0.0, f64::max);
        Measurement {
            baseline: Some(baseline),
            with: Some(with),
            ratio: Some(baseline / with),
            spread: Some((least, greatest)),
            misfit: None,
            broken: self.broken.into_iter().collect(),
            notes,
        }
    }

    /// Returns the greatest value of each figure.
    pub(super) fn maxima(self, notes: String) -> Measurement {
        let max = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let (baseline, with) = (max(&self.baseline), max(&self.with));
        Measurement {
            baseline: Some(baseline),
            with: Some(with),
            ratio: Some(baseline / with),
            spread: None,
            misfit: None,
            broken: self.broken.into_iter().collect(),
            notes,
        }
    }
}

/// The number of runs with CPUs that are alternately busy and idle.
const RESTLESS_RUNS: u32 = 10;

/// Measures arming and cancelling a timer on an isolated CPU. The timer stays on that CPU, or a search finds a busy CPU
/// for it. In each run another random quarter of the other CPUs is busy.
pub(super) fn enqueue(trial: &Trial<'_>) -> Measurement {
    let mut scenario = scenario("enqueue", trial.profile);
    let search = Policy {
        target: Target::Search,
        ..scenario.policy
    };
    let with = trial.mechanism.choose(scenario.policy, search);
    let runs_max = match trial.effort {
        Effort::Full => 200,
        Effort::Quick => 30,
    };
    scenario.duration = Picos::from_millis(25);
    let pair = |outcome: &Outcome| {
        outcome
            .series("pair")
            .map_or(Picos::ZERO, |pair| pair.mean())
    };
    let mut random = Random::new(trial.seed);
    let mut runs = Runs::default();
    for _ in 0..runs_max {
        let [baseline, with] = both(&scenario, search, with, random.bits());
        runs.add(nanos(pair(&baseline)), nanos(pair(&with)), &with);
    }
    // The same load, but never the same CPUs for long.
    let mut restless = scenario.clone();
    let mut random = Random::new(trial.seed);
    let mut ratios = Vec::new();
    for placed in &mut restless.workloads {
        if placed.workload == Workload::Busy {
            placed.one_in = 1;
            placed.workload = Workload::Duty {
                work: Picos::from_micros(250),
                gap: Picos::from_micros(750),
            };
        }
    }
    for _ in 0..RESTLESS_RUNS {
        let [baseline, with] = both(&restless, search, with, random.bits());
        ratios.push(nanos(pair(&baseline)) / nanos(pair(&with)));
    }
    let restless = ratios.iter().sum::<f64>() / f64::from(RESTLESS_RUNS);
    let notes = format!(
        "Mean of {runs_max} draws of the busy quarter, which decides how far the search goes. If each of \
         the others is busy a quarter of the time, so that lines change all the time, the ratio is {restless:.2}."
    );
    runs.means(notes)
}

/// Measures the deep idle time of pull against push, with the same daemons.
pub(super) fn idle_residency(trial: &Trial<'_>) -> Measurement {
    let mut scenario = scenario("idle-residency", trial.profile);
    let runs_max = match trial.effort {
        Effort::Full => 8,
        Effort::Quick => 2,
    };
    if trial.effort == Effort::Quick {
        scenario.duration = Picos::from_millis(1_000);
    }
    let push = Policy {
        target: Target::Search,
        ..scenario.policy
    };
    let own = Policy {
        target: Target::Own,
        ..scenario.policy
    };
    let with = trial.mechanism.choose(scenario.policy, own);
    let share = |outcome: &Outcome| {
        let deep = outcome.residency.iter().filter(|one| one.deep);
        let deep = deep.map(|one| one.time.0).sum();
        let all = Picos(outcome.duration.0 * u64::from(outcome.cpus));
        100.0 * in_unit(Picos(deep), all)
    };
    let mut random = Random::new(trial.seed);
    let mut runs = Runs::default();
    let (mut entries, mut fires, mut power) = ((0, 0), (0, 0, 0), (0, 0));
    for _ in 0..runs_max {
        let [baseline, with] = both(&scenario, push, with, random.bits());
        entries = (
            entries.0 + baseline.counts.idle_entries,
            entries.1 + with.counts.idle_entries,
        );
        fires = (
            fires.0 + with.counts.coarse_fires,
            fires.1 + with.counts.remote_fires,
            fires.2 + with.counts.ping_pongs,
        );
        power = (
            power.0 + baseline.idle_milliwatts,
            power.1 + with.idle_milliwatts,
        );
        // More is better: the ratio of a run is the library's by the baseline's.
        runs.add(share(&with), share(&baseline), &with);
    }
    let notes = format!(
        "{runs_max} runs. Idle entries {} against {}; timers run by others {} of {}, of which {} woke their owner all \
         the same, so that two CPUs woke; cores draw {} mW against {} mW while idle.",
        entries.0,
        entries.1,
        fires.1,
        fires.0,
        fires.2,
        power.0 / runs_max,
        power.1 / runs_max,
    );
    let means = runs.means(notes);
    Measurement {
        baseline: means.with,
        with: means.baseline,
        ..means
    }
}
