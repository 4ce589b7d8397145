//! The claims about a run of hackbench with slices that end precisely (spec ).
//!
//! | run | what is off |
//! |---|---|
//! | the library | nothing |
//! | all off | what makes a precise tick cheap: each start writes, in the interrupt and in the scheduler, a timer is taken out and filed anew, no start is left out, a decision begins with taking out the tick of before |
//! | without ticks | the precise tick: slices end at periodic ticks |
//!
//! The figures of the machine are of all its CPUs together, from the start until the last message was received.

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
/// CPUs for a quick look.
const QUICK_CPUS: u32 = 8;
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

/// The device writes that precise ticks cause: with all off, and with the library.
struct Writes {
    /// The run with all off, the same without precise ticks, the library, and that without.
    outcomes: [Outcome; 4],
    /// Writes that the precise ticks cause: more than without.
    caused: [u64; 2],
}

impl Writes {
    fn of(trial: &Trial<'_>) -> Self {
        let scenario = setting(trial);
        let off = all_off(scenario.policy);
        let with = trial.mechanism.choose(scenario.policy, off);
        let without = |policy| Policy {
            hrtick: Hrtick::Off,
            ..policy
        };
        let policies = [off, without(off), with, without(with)];
        let outcomes = policies.map(|policy| of(&scenario, policy, trial.seed));
        let writes = outcomes.each_ref().map(|one| one.counts.device_writes);
        let caused = [(0, 1), (2, 3)].map(|(on, off)| writes[on].saturating_sub(writes[off]));
        Self { outcomes, caused }
    }

    fn saved(&self) -> f64 {
        self.caused[0] as f64 / self.caused[1].max(1) as f64
    }
}

pub(super) fn rearm_rate(trial: &Trial<'_>) -> Measurement {
    let writes = Writes::of(trial);
    let [off, off_without, on, on_without] = &writes.outcomes;
    let rates = (rate(writes.caused[0], off), rate(writes.caused[1], on));
    let count = |outcome: &Outcome| outcome.counts.device_writes;
    let notes = format!(
        "Per CPU, by what devices are written more often than without precise ticks. On the whole machine that is {} \
         with all off ({} of which {} without ticks) and {} with the library ({} of which {}); of all writes, those of \
         periodic ticks and of idle CPUs among them, it is {:.1} times fewer. There were {} and {} switches.",
        writes.caused[0],
        count(off),
        count(off_without),
        writes.caused[1],
        count(on),
        count(on_without),
        count(off) as f64 / count(on).max(1) as f64,
        off.counts.switches,
        on.counts.switches,
    );
    // By count, not by rate: the runs are not of one length.
    measurement(rates, writes.saved(), &writes.outcomes, notes)
}

pub(super) fn spurious(trial: &Trial<'_>) -> Measurement {
    let writes = Writes::of(trial);
    let [off, _, on, _] = &writes.outcomes;
    let of = |outcome: &Outcome| share(outcome.counts.spurious, outcome.counts.interrupts);
    let (before, after) = (of(off), of(on));
    let notes = format!(
        "{} of {} timer interrupts found nothing, {} of {} with all off. A device that laziness left too early, and \
         that would soon fire for nothing, is written at the switch before, which costs what the interrupt would have \
         written.",
        on.counts.spurious, on.counts.interrupts, off.counts.spurious, off.counts.interrupts,
    );
    // It is the price of writing the device less often: without that it is no achievement.
    let saved = writes.saved();
    let ratio = SPURIOUS / after.max(LEAST_SPURIOUS) * (saved / WRITES).min(1.0);
    let mut measured = measurement((before, after), ratio, &writes.outcomes, notes);
    measured.misfit = (saved < WRITES)
        .then(|| format!("ticks write devices {saved:.1} times less often, not {WRITES} times."));
    measured
}

/// The share of updates that a look at both neighbours leaves in their place, as the source counts it.
///
/// The library looks at them only where it does not leave a timer filed under an older key, or in a far slot. The
/// results that a look would have had are counted beside it, in a sorted queue that this run keeps for that.
pub(super) fn in_place(trial: &Trial<'_>) -> Measurement {
    let scenario = setting(trial);
    let off = of(&scenario, all_off(scenario.policy), trial.seed);
    let on = match trial.mechanism {
        Mechanism::On => run_counting_places(&scenario, trial.seed),
        Mechanism::Off => (off.clone(), off.counts.exact_in_place),
    };
    let (on, kept) = on;
    let counts = on.counts;
    let of_all = |part: u64| share(part, counts.exact_restarts);
    let (before, after) = (
        share(off.counts.exact_in_place, off.counts.exact_restarts),
        of_all(kept),
    );
    let notes = format!(
        "Of {} starts of queued timers {} kept their place between their neighbours in the order of deadlines. The \
         library itself looked at the neighbours of {}, and {} of those stayed ({:.1} % of all starts, {:.1} % of \
         those looked at). It left {} filed under an older key and {} in a far slot without a look, which the source \
         does not do, and which costs less.",
        counts.exact_restarts,
        kept,
        counts.exact_restarts - counts.exact_filed_early - counts.exact_far_in_slot,
        counts.exact_in_place,
        of_all(counts.exact_in_place),
        share(
            counts.exact_in_place,
            counts.exact_restarts - counts.exact_filed_early - counts.exact_far_in_slot,
        ),
        counts.exact_filed_early,
        counts.exact_far_in_slot,
    );
    measurement((before, after), after / IN_PLACE, &[off, on], notes)
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

/// Returns the time of a run without and with precise ticks, in milliseconds. The `more` messages make it another run,
/// because nothing in it is drawn.
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

/// The mean of some runs of one size, and the least and the greatest ratio among them.
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
