//! The claims about a run of hackbench with slices that end precisely (spec ).
//!
//! | run | what is off |
//! |---|---|
//! | the library | nothing |
//! | all off | the optimizations that make a precise tick cheap: each start writes the device, in the interrupt and in the scheduler; each restart removes and enqueues the timer; no start is left out; a decision begins with cancelling the previous tick |
//! | without ticks | the precise tick: slices end at periodic ticks |
//!
//! The figures of the machine are sums over all its CPUs, from the start until the last message was received.

use super::measure::{Effort, Measurement, Mechanism, Trial, in_unit, nanos, scenario};
use crate::baseline::{Hrtick, Policy, Rearm, Tree};
use crate::model::time::Picos;
use crate::run::outcome::Outcome;
use crate::run::runner::{run, run_counting_places};
use crate::run::scenario::Scenario;
use crate::workload::Workload;

/// The clock of the source, by that of the profile, in tenths of a gigahertz.
const CLOCKS: (f64, f64) = (20.0, 28.0);
/// The figure of the source for a start, in nanoseconds.
const START: f64 = 50.0;
/// The figure of the source for interrupts that find nothing, in a hundred.
const SPURIOUS: f64 = 25.0;
/// The least percentage of spurious interrupts: a smaller one counts as this, because a short run has too few to tell.
const LEAST_SPURIOUS: f64 = 1.0;
/// The figure of the source for updates in place, in a hundred.
const IN_PLACE: f64 = 35.0;
/// The factor by which the source writes its device less often.
const WRITES: f64 = 25.0;
const QUICK_CPUS: u32 = 8;
/// Messages of the eleven loads, in hundredths of the scenario's number: nothing in a run is random, so only another
/// number of messages makes another run.
const LOADS: [u32; 11] = [90, 92, 94, 96, 98, 100, 102, 104, 106, 108, 110];
const QUICK_LOADS: [u32; 3] = [90, 100, 110];
/// Bytes of a message: up to 256, as in the source.
const SIZES: [u32; 6] = [8, 16, 32, 64, 128, 256];

/// The run of the source: ten groups of 20 senders and 20 receivers, with messages of 8 bytes.
fn setting(trial: &Trial<'_>) -> Scenario {
    let mut scenario = scenario("hackbench", trial.profile);
    if trial.effort == Effort::Quick {
        scenario.cpus = QUICK_CPUS;
        scenario.isolated.truncate(QUICK_CPUS as usize);
        scenario.tickless.truncate(QUICK_CPUS as usize);
        for placed in &mut scenario.workloads {
            placed.cpus.retain(|cpu| *cpu < QUICK_CPUS);
        }
        change(&mut scenario, |groups, messages, _| {
            (*groups, *messages) = (2, 20);
        });
    }
    scenario
}

fn change(scenario: &mut Scenario, change: impl Fn(&mut u32, &mut u32, &mut u32)) {
    for placed in &mut scenario.workloads {
        if let Workload::Hackbench {
            groups,
            messages,
            size,
            ..
        } = &mut placed.workload
        {
            change(groups, messages, size);
        }
    }
}

/// Turns everything off that makes a precise tick cheap.
fn all_off(policy: Policy) -> Policy {
    Policy {
        rearm: Rearm::Immediate,
        tree: Tree::Plain,
        hrtick: Hrtick::Unfiltered,
        ..policy
    }
}

fn of(scenario: &Scenario, policy: Policy, seed: u64) -> Outcome {
    let mut scenario = scenario.clone();
    scenario.policy = policy;
    run(&scenario, seed)
}

/// Returns the time at which the last message was received; the end of the run if some were not.
fn finish(outcome: &Outcome) -> Picos {
    let finish = outcome.series("finish");
    finish.map_or(outcome.duration, |groups| groups.max())
}

/// One load of a claim that is tried with several.
struct Load {
    before: f64,
    after: f64,
    /// The factor by which the mechanism improves the figure, as the claim counts it.
    ratio: f64,
    outcomes: Vec<Outcome>,
}

/// A claim tried with several loads: the medians, and the spread of the ratios.
struct Loads(Vec<Load>);

impl Loads {
    /// Calls `measure` with the scenario of each load.
    fn of(trial: &Trial<'_>, measure: impl Fn(&Scenario) -> Load) -> Self {
        let hundredths: &[u32] = match trial.effort {
            Effort::Full => &LOADS,
            Effort::Quick => &QUICK_LOADS,
        };
        let load = |hundredths: &u32| {
            let mut scenario = setting(trial);
            change(&mut scenario, |_, messages, _| {
                *messages = *messages * hundredths / 100;
            });
            measure(&scenario)
        };
        Self(hundredths.iter().map(load).collect())
    }

    /// Returns the least, the median and the greatest value of one figure.
    fn spread(&self, figure: impl Fn(&Load) -> f64) -> [f64; 3] {
        let mut figures: Vec<f64> = self.0.iter().map(figure).collect();
        figures.sort_unstable_by(f64::total_cmp);
        [0, figures.len() / 2, figures.len() - 1].map(|place| figures[place])
    }

    /// Returns the median of one figure, and its spread, as text.
    fn median(&self, figure: impl Fn(&Load) -> f64) -> String {
        let [least, median, greatest] = self.spread(figure);
        format!("{median:.1} ({least:.1} to {greatest:.1})")
    }

    /// The load in the middle of the list, which is the scenario's own.
    fn middle(&self) -> &Load {
        &self.0[self.0.len() / 2]
    }

    /// The measurement, which fits the source only if each load alone reaches the ratio `needed`.
    fn measurement(self, needed: f64, notes: String) -> Measurement {
        let [least, ratio, greatest] = self.spread(|load| load.ratio);
        let short = self.0.iter().filter(|load| load.ratio < needed).count();
        let figures = [
            self.spread(|load| load.before)[1],
            self.spread(|load| load.after)[1],
        ];
        let misfit =
            (short > 0).then(|| format!("{short} of {} message counts fall short.", self.0.len()));
        let outcomes: Vec<Outcome> = self.0.into_iter().flat_map(|load| load.outcomes).collect();
        Measurement {
            spread: Some((least, greatest)),
            misfit,
            ..measurement((figures[0], figures[1]), ratio, &outcomes, notes)
        }
    }
}

/// The two runs of most claims: all off, and the library or, in the control, all off again.
fn off_and_on(trial: &Trial<'_>) -> [Outcome; 2] {
    let scenario = setting(trial);
    let off = all_off(scenario.policy);
    let with = trial.mechanism.choose(scenario.policy, off);
    [off, with].map(|policy| of(&scenario, policy, trial.seed))
}

fn measurement(
    (baseline, with): (f64, f64),
    ratio: f64,
    outcomes: &[Outcome],
    notes: String,
) -> Measurement {
    let broken = outcomes.iter().flat_map(|one| one.broken.keys());
    let mut broken: Vec<_> = broken.map(|promise| promise.name()).collect();
    broken.sort_unstable();
    broken.dedup();
    Measurement {
        baseline: Some(baseline),
        with: Some(with),
        ratio: Some(ratio),
        spread: None,
        misfit: None,
        broken,
        notes,
    }
}

fn share(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// Returns the writes of devices by a CPU in a second of the run.
fn rate(writes: u64, outcome: &Outcome) -> f64 {
    let time = in_unit(finish(outcome), Picos::from_millis(1_000));
    writes as f64 / time / f64::from(outcome.cpus)
}

/// The device writes that precise ticks cause, with two policies.
struct Writes {
    /// The runs with all off, the same without precise ticks, with the other policy, and that without.
    outcomes: [Outcome; 4],
    /// Writes that the precise ticks cause: more than without.
    caused: [u64; 2],
}

impl Writes {
    fn of(scenario: &Scenario, with: Policy, seed: u64) -> Self {
        let off = all_off(scenario.policy);
        let without = |policy| Policy {
            hrtick: Hrtick::Off,
            ..policy
        };
        let policies = [off, without(off), with, without(with)];
        let outcomes = policies.map(|policy| of(scenario, policy, seed));
        let writes = outcomes.each_ref().map(|one| one.counts.device_writes);
        let caused = [(0, 1), (2, 3)].map(|(on, off)| writes[on].saturating_sub(writes[off]));
        Self { outcomes, caused }
    }

    /// Returns the factor by which precise ticks cause fewer writes.
    fn saved(&self) -> f64 {
        self.caused[0] as f64 / self.caused[1].max(1) as f64
    }
}

/// Returns the factor by which the total number of writes is lower.
fn all_writes(load: &Load) -> f64 {
    let writes = |place: usize| load.outcomes[place].counts.device_writes;
    writes(0) as f64 / writes(2).max(1) as f64
}

/// The policy that has all that makes precise ticks cheap but laziness.
fn not_lazy(policy: Policy) -> Policy {
    Policy {
        rearm: Rearm::Eager,
        ..policy
    }
}

/// The policy that has laziness, and deferral, which it needs, alone.
fn lazy_alone(policy: Policy) -> Policy {
    Policy {
        rearm: Rearm::Deferred,
        ..all_off(policy)
    }
}

/// The writes that precise ticks cause, by eleven loads. Without laziness alone, which is the control, the rest has to
/// fall short: else the claim says nothing of laziness.
pub(super) fn rearm_rate(trial: &Trial<'_>) -> Measurement {
    let loads = Loads::of(trial, |scenario| {
        let policy = scenario.policy;
        let with = trial.mechanism.choose(policy, not_lazy(policy));
        let writes = Writes::of(scenario, with, trial.seed);
        let [off, _, on, _] = &writes.outcomes;
        Load {
            before: rate(writes.caused[0], off),
            after: rate(writes.caused[1], on),
            // By count, not by rate: the runs are not of one length.
            ratio: writes.saved(),
            outcomes: writes.outcomes.into(),
        }
    });
    let scenario = setting(trial);
    let [eager, alone] = [not_lazy, lazy_alone]
        .map(|policy| Writes::of(&scenario, policy(scenario.policy), trial.seed).saved());
    let [off, off_without, on, on_without] = [0, 1, 2, 3].map(|place| {
        let outcome = &loads.middle().outcomes[place];
        outcome.counts.device_writes
    });
    let notes = format!(
        "Medians by CPU over {} message counts, of what devices are written more often than without precise ticks: {} \
         times fewer. Of all writes, those of periodic ticks and of idle CPUs among them, it is {} times fewer. With \
         the messages of the scenario the machine writes {off} times with all off ({off_without} of which without \
         ticks) and {on} with the library ({on_without} of which). There the library without laziness alone saves \
         {eager:.1} times, and laziness with deferral alone {alone:.1} times.",
        loads.0.len(),
        loads.median(|load| load.ratio),
        loads.median(all_writes),
    );
    loads.measurement(WRITES, notes)
}

/// Interrupts that find nothing, by eleven loads.
pub(super) fn spurious(trial: &Trial<'_>) -> Measurement {
    let of = |outcome: &Outcome| share(outcome.counts.spurious, outcome.counts.interrupts);
    let loads = Loads::of(trial, |scenario| {
        let policy = scenario.policy;
        let with = trial.mechanism.choose(policy, all_off(policy));
        let writes = Writes::of(scenario, with, trial.seed);
        let [off, _, on, _] = &writes.outcomes;
        let (before, after) = (of(off), of(on));
        // It is the price of writing the device less often: without that it is no achievement.
        let earned = (writes.saved() / WRITES).min(1.0);
        Load {
            before,
            after,
            ratio: SPURIOUS / after.max(LEAST_SPURIOUS) * earned,
            outcomes: writes.outcomes.into(),
        }
    });
    let [off, _, on, _] = &loads.middle().outcomes[..] else {
        unreachable!("each load has four runs");
    };
    let notes = format!(
        "Over {} message counts {} % of the timer interrupts found nothing. With those of the scenario it was {} of \
         {}, and {} of {} with all off. A device that laziness left too early, and that would soon fire for nothing, \
         is written at the switch before, which costs what the interrupt would have written.",
        loads.0.len(),
        loads.median(|load| load.after),
        on.counts.spurious,
        on.counts.interrupts,
        off.counts.spurious,
        off.counts.interrupts,
    );
    loads.measurement(1.0, notes)
}

/// The share of updates that the library itself leaves in their place after a look at both neighbours, by eleven loads.
///
/// The library checks the neighbours only if it does not leave the timer queued under an older key, or in a far slot.
/// The notes give the result that a check of the latter timers would have had. One run keeps a sorted queue to count
/// these; the library itself does not count them.
pub(super) fn in_place(trial: &Trial<'_>) -> Measurement {
    let of_all = |outcome: &Outcome| {
        let counts = outcome.counts;
        share(counts.exact_in_place, counts.exact_restarts)
    };
    let loads = Loads::of(trial, |scenario| {
        let off = of(scenario, all_off(scenario.policy), trial.seed);
        let on = match trial.mechanism {
            Mechanism::On => of(scenario, scenario.policy, trial.seed),
            Mechanism::Off => off.clone(),
        };
        let after = of_all(&on);
        Load {
            before: of_all(&off),
            after,
            ratio: after / IN_PLACE,
            outcomes: vec![off, on],
        }
    });
    let (_, kept) = run_counting_places(&setting(trial), trial.seed);
    let counts = loads.middle().outcomes[1].counts;
    let looked_at = counts.exact_restarts - counts.exact_filed_early - counts.exact_far_in_slot;
    let notes = format!(
        "By the library's own count, over {} message counts {} % of the starts of queued timers. With those of the \
         scenario it looked at the neighbours in {looked_at} of {} starts, and {} of those stayed. It left {} filed \
         under an older key and {} in a far slot without a look, which the source does not do, and which costs less. \
         A queue that sorts every timer, which this run keeps beside the library's, would have kept {kept} in place \
         ({:.1} %).",
        loads.0.len(),
        loads.median(|load| load.after),
        counts.exact_restarts,
        counts.exact_in_place,
        counts.exact_filed_early,
        counts.exact_far_in_slot,
        share(kept, counts.exact_restarts),
    );
    loads.measurement(1.0, notes)
}

/// The mean over all starts of a hackbench run.
pub(super) fn start_cost(trial: &Trial<'_>) -> Measurement {
    let outcomes = off_and_on(trial);
    let [off, on] = &outcomes;
    let counts = on.counts;
    let notes = format!(
        "The ratio is that of the source's 50 ns to the mean of {} starts, of {} in all: those of ticks that stop or \
         go on are made inside. {} of them stayed where they were; in the whole run devices were written {} times.",
        counts.timed_starts,
        counts.exact_starts,
        counts.exact_in_place + counts.exact_filed_early + counts.exact_far_in_slot,
        counts.device_writes,
    );
    let (before, after) = (cost(off), cost(on));
    measurement((before, after), START / after, &outcomes, notes)
}

/// The mean, at the clock of the source.
fn cost(outcome: &Outcome) -> f64 {
    let counts = outcome.counts;
    let mean = Picos(counts.starting.0 / counts.timed_starts.max(1));
    nanos(mean) * CLOCKS.1 / CLOCKS.0
}

/// Returns the time of a run without and with precise ticks, in milliseconds. The `more` messages make another run,
/// because nothing in a run is random.
fn times(trial: &Trial<'_>, size: u32, more: u32) -> ([f64; 2], [Outcome; 2]) {
    let mut scenario = setting(trial);
    change(&mut scenario, |_, messages, bytes| {
        *messages += more;
        *bytes = size;
    });
    let without = Policy {
        hrtick: Hrtick::Off,
        ..scenario.policy
    };
    let with = match trial.mechanism {
        Mechanism::On => scenario.policy,
        Mechanism::Off => all_off(scenario.policy),
    };
    let outcomes = [without, with].map(|policy| of(&scenario, policy, trial.seed));
    let time = |outcome: &Outcome| in_unit(finish(outcome), Picos::from_millis(1));
    (outcomes.each_ref().map(time), outcomes)
}

/// Returns the mean of some runs of one size, and the least and the greatest ratio among these runs.
fn mean_times(trial: &Trial<'_>, size: u32) -> ([f64; 2], (f64, f64), Vec<Outcome>) {
    let runs = match trial.effort {
        Effort::Full => 4,
        Effort::Quick => 2,
    };
    let mut sums = [0.0; 2];
    let mut spread = (f64::INFINITY, 0.0_f64);
    let mut all = Vec::new();
    for more in 0..runs {
        let ([without, with], outcomes) = times(trial, size, more);
        sums = [sums[0] + without, sums[1] + with];
        spread = (spread.0.min(without / with), spread.1.max(without / with));
        all.extend(outcomes);
    }
    (sums.map(|sum| sum / f64::from(runs)), spread, all)
}

pub(super) fn run_time(trial: &Trial<'_>) -> Measurement {
    let ([without, with], spread, outcomes) = mean_times(trial, SIZES[0]);
    let counts = |place: usize| outcomes[place].counts;
    let notes = format!(
        "Switches {} and {}, picked again {} and {}, tasks \
         taken over by idle CPUs {} and {}.",
        counts(0).switches,
        counts(1).switches,
        counts(0).picked_again,
        counts(1).picked_again,
        counts(0).pulled,
        counts(1).pulled,
    );
    Measurement {
        spread: Some(spread),
        ..measurement((without, with), without / with, &outcomes, notes)
    }
}

pub(super) fn sizes(trial: &Trial<'_>) -> Measurement {
    let mut worst: Option<([f64; 2], f64)> = None;
    let mut all = Vec::new();
    let mut notes = String::from("Without precise ticks, with them, and the ratio, by size:");
    for size in SIZES {
        let (times, _, outcomes) = mean_times(trial, size);
        let ratio = times[0] / times[1];
        notes.push_str(&format!(
            " {size} bytes {:.3} and {:.3} ms, {ratio:.3};",
            times[0], times[1]
        ));
        if worst.is_none_or(|(_, least)| ratio < least) {
            worst = Some((times, ratio));
        }
        all.extend(outcomes);
    }
    let (times, ratio) = worst.expect("there are sizes");
    notes.push_str(" the figures are those of the worst size.");
    measurement((times[0], times[1]), ratio, &all, notes)
}
