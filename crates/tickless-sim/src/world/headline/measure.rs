//! How each claim is tried.

use std::collections::BTreeSet;

use crate::random::Random;
use crate::world::baseline::{Isolation, Policy, Soft, Target};
use crate::world::outcome::Outcome;
use crate::world::profile::Profile;
use crate::world::scenario::{Scenario, run};
use crate::world::time::Picos;
use crate::world::workload::Workload;

/// How long to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As long as the source did.
    Full,
    /// As long as it takes to see the point.
    Quick,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measurement {
    pub(super) baseline: Option<f64>,
    /// `None` if that needs what is not there yet.
    pub(super) with: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) spread: Option<(f64, f64)>,
    pub(super) broken: Vec<&'static str>,
    pub(super) notes: String,
}

impl Measurement {
    pub(super) const fn ratio(&self) -> Option<f64> {
        self.ratio
    }
}

const FILES: [(&str, &str); 6] = [
    ("compute", include_str!("../../../scenarios/compute.toml")),
    ("enqueue", include_str!("../../../scenarios/enqueue.toml")),
    (
        "idle-residency",
        include_str!("../../../scenarios/idle-residency.toml"),
    ),
    (
        "softirq-latency",
        include_str!("../../../scenarios/softirq-latency.toml"),
    ),
    (
        "isolation-noise",
        include_str!("../../../scenarios/isolation-noise.toml"),
    ),
    (
        "start-cost",
        include_str!("../../../scenarios/start-cost.toml"),
    ),
];

/// A scenario that comes with the library.
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

/// Runs a scenario with two policies and the same seed: the baseline and the library.
fn both(scenario: &Scenario, baseline: Policy, seed: u64) -> (Outcome, Outcome) {
    let mut other = scenario.clone();
    other.policy = baseline;
    (run(&other, seed), run(scenario, seed))
}

/// The only place where times become numbers without a unit, for reports.
fn in_unit(time: Picos, unit: Picos) -> f64 {
    time.0 as f64 / unit.0 as f64
}

fn nanos(time: Picos) -> f64 {
    in_unit(time, Picos::from_nanos(1))
}

fn micros(time: Picos) -> f64 {
    in_unit(time, Picos::from_micros(1))
}

/// Collects runs.
#[derive(Default)]
struct Runs {
    baseline: Vec<f64>,
    with: Vec<f64>,
    broken: BTreeSet<&'static str>,
}

impl Runs {
    fn add(&mut self, baseline: f64, with: f64, outcome: &Outcome) {
        self.baseline.push(baseline);
        self.with.push(with);
        self.broken
            .extend(outcome.broken.keys().map(|promise| promise.name()));
    }

    /// The mean of each, and the ratios of the runs.
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
            broken: self.broken.into_iter().collect(),
            notes,
        }
    }

    /// The greatest of each.
    fn maxima(self, notes: String) -> Measurement {
        let max = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let (baseline, with) = (max(&self.baseline), max(&self.with));
        Measurement {
            baseline: Some(baseline),
            with: Some(with),
            ratio: Some(baseline / with),
            spread: None,
            broken: self.broken.into_iter().collect(),
            notes,
        }
    }
}

/// Runs with CPUs that are busy by turns.
const RESTLESS_RUNS: u32 = 10;

/// Arm and cancel on an isolated CPU: where it is, or where a search finds a busy CPU. Which quarter of the others is
/// busy is drawn anew in each run.
pub(super) fn enqueue(seed: u64, effort: Effort, profile: &Profile) -> Measurement {
    let mut scenario = scenario("enqueue", profile);
    let search = Policy {
        target: Target::Search,
        ..scenario.policy
    };
    let runs_max = match effort {
        Effort::Full => 200,
        Effort::Quick => 30,
    };
    scenario.duration = Picos::from_millis(25);
    let pair = |outcome: &Outcome| {
        outcome
            .series("pair")
            .map_or(Picos::ZERO, |pair| pair.mean())
    };
    let mut random = Random::new(seed);
    let mut runs = Runs::default();
    for _ in 0..runs_max {
        let (baseline, with) = both(&scenario, search, random.bits());
        runs.add(nanos(pair(&baseline)), nanos(pair(&with)), &with);
    }
    // The same load, but never the same CPUs for long.
    let mut restless = scenario.clone();
    let mut random = Random::new(seed);
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
        let (baseline, with) = both(&restless, search, random.bits());
        ratios.push(nanos(pair(&baseline)) / nanos(pair(&with)));
    }
    let restless = ratios.iter().sum::<f64>() / f64::from(RESTLESS_RUNS);
    let notes = format!(
        "Mean of {runs_max} draws of the busy quarter, which decides how far the search goes. If each of \
         the others is busy a quarter of the time, so that lines change all the time, the ratio is {restless:.2}."
    );
    runs.means(notes)
}

/// Deep idle: pull against push, the same daemons.
pub(super) fn idle_residency(seed: u64, effort: Effort, profile: &Profile) -> Measurement {
    let mut scenario = scenario("idle-residency", profile);
    let runs_max = match effort {
        Effort::Full => 8,
        Effort::Quick => 2,
    };
    if effort == Effort::Quick {
        scenario.duration = Picos::from_millis(1_000);
    }
    let push = Policy {
        target: Target::Search,
        ..scenario.policy
    };
    let share = |outcome: &Outcome| {
        let deep = outcome.residency.iter().filter(|one| one.deep);
        let deep = deep.map(|one| one.time.0).sum();
        let all = Picos(outcome.duration.0 * u64::from(outcome.cpus));
        100.0 * in_unit(Picos(deep), all)
    };
    let mut random = Random::new(seed);
    let mut runs = Runs::default();
    let (mut entries, mut fires, mut power) = ((0, 0), (0, 0, 0), (0, 0));
    for _ in 0..runs_max {
        let (baseline, with) = both(&scenario, push, random.bits());
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

/// The worst latency of a sleeper on an isolated CPU: the soft stage at each tick, or when something is due. Each run
/// starts at another moment of the tick.
pub(super) fn softirq_latency(seed: u64, effort: Effort, profile: &Profile) -> Measurement {
    let mut scenario = scenario("softirq-latency", profile);
    let runs_max = match effort {
        Effort::Full => 200,
        Effort::Quick => 60,
    };
    scenario.duration = match effort {
        Effort::Full => Picos::from_millis(200),
        Effort::Quick => Picos::from_millis(20),
    };
    let with_soft = |soft| Policy {
        soft,
        ..scenario.policy
    };
    let latency = |outcome: &Outcome| {
        outcome
            .series("latency")
            .map_or(Picos::ZERO, |latency| latency.max())
    };
    let mut random = Random::new(seed);
    let mut runs = Runs::default();
    let (mut stages, mut bitmap) = ((0, 0, 0), Picos::ZERO);
    for _ in 0..runs_max {
        let seed = random.bits();
        let (baseline, with) = both(&scenario, with_soft(Soft::Unconditional), seed);
        let mut middle = scenario.clone();
        middle.policy = with_soft(Soft::Bitmap);
        let middle = run(&middle, seed);
        bitmap = bitmap.max(latency(&middle));
        stages.0 += baseline.counts.soft_stages;
        stages.1 += middle.counts.soft_stages;
        stages.2 += with.counts.soft_stages;
        runs.add(micros(latency(&baseline)), micros(latency(&with)), &with);
    }
    let notes = format!(
        "Worst of {runs_max} runs, each with another phase to the tick. A bitmap with interrupts, which one far timer \
         defeats: {:.1} us. Soft stages: {} at each tick, {} with the bitmap, {} when due.",
        micros(bitmap),
        stages.0,
        stages.1,
        stages.2,
    );
    runs.maxima(notes)
}

/// The longest theft from pollers on isolated CPUs: part of the hierarchy or not.
pub(super) fn isolation_noise(seed: u64, effort: Effort, profile: &Profile) -> Measurement {
    let mut scenario = scenario("isolation-noise", profile);
    if effort == Effort::Quick {
        scenario.duration = Picos::from_millis(1_000);
    }
    let take_part = Policy {
        isolation: Isolation::TakePart,
        ..scenario.policy
    };
    let (baseline, with) = both(&scenario, take_part, seed);
    let worst = |outcome: &Outcome| {
        let longest = outcome.per_cpu.iter().map(|cpu| cpu.longest_theft).max();
        micros(longest.unwrap_or(Picos::ZERO))
    };
    let quiet = baseline
        .per_cpu
        .iter()
        .filter(|cpu| cpu.longest_theft > Picos::ZERO);
    let quiet = quiet
        .map(|cpu| cpu.longest_theft)
        .min()
        .unwrap_or(Picos::ZERO);
    let noisy: Vec<String> = baseline
        .per_cpu
        .iter()
        .filter(|cpu| cpu.longest_theft > quiet * 2)
        .map(|cpu| format!("{} ({:.0} us)", cpu.cpu, micros(cpu.longest_theft)))
        .collect();
    let notes = format!(
        "Disturbed without isolation: CPUs {}; the others {:.1} us. The source has 1 and 65 worst, the others 3 to 5 \
         us.",
        noisy.join(", "),
        micros(quiet),
    );
    Measurement {
        baseline: Some(worst(&baseline)),
        with: Some(worst(&with)),
        ratio: Some(worst(&baseline) / worst(&with)),
        spread: None,
        broken: with.broken.keys().map(|promise| promise.name()).collect(),
        notes,
    }
}

/// The clock of the source, by that of the profile, in tenths of a gigahertz.
const CLOCKS: (f64, f64) = (20.0, 28.0);

/// What starting a queued timer takes.
pub(super) fn start_cost(seed: u64, _effort: Effort, profile: &Profile) -> Measurement {
    let outcome = run(&scenario("start-cost", profile), seed);
    let cost = |name: &str| {
        let mean = outcome
            .series(name)
            .map_or(Picos::ZERO, |starts| starts.mean());
        nanos(mean) * CLOCKS.1 / CLOCKS.0
    };
    let with = cost("in-place");
    Measurement {
        baseline: Some(cost("fresh")),
        with: Some(with),
        // Of the figure of the source: there is no ratio to compare with.
        ratio: Some(50.0 / with),
        spread: None,
        broken: outcome
            .broken
            .keys()
            .map(|promise| promise.name())
            .collect(),
        notes: "The ratio is that of the source's 50 ns to the start in place.".to_owned(),
    }
}
