//! The execution of scenarios.

use std::cell::RefCell;
use std::rc::Rc;

use tickless_conformance::random::Random;

use crate::baseline::Scheduler;
use crate::fault::Fault;
use crate::machine::checks;
use crate::machine::executor::Executor;
use crate::machine::machine::Machine;
use crate::machine::settings::Settings;
use crate::model::time::Picos;
use crate::model::{cost_model, current_cpu};
use crate::promise::canary::whim;
use crate::promise::ledger::Ledger;
use crate::promise::{Promise, Violation, deterministic};
use crate::record::{Header, Recorder, SharedSink};
use crate::run::groups::{self, CpuOutcome};
use crate::run::outcome::{Outcome, Residency, Share};
use crate::run::scenario::Scenario;
use crate::workload::tasks;

fn settings(scenario: &Scenario, seed: u64) -> Settings {
    let faults: Rc<[Fault]> = scenario.fault_plan(seed).into();
    let allowed = faults
        .iter()
        .map(|fault| fault.allows(scenario.duration).0)
        .sum();
    let resized = scenario.profile.topology.resized(scenario.cpus);
    Settings {
        profile: scenario.profile.clone(),
        device: scenario
            .device
            .as_ref()
            .unwrap_or(&scenario.profile.device)
            .clone(),
        topology: resized.expect("looked at when the scenario was read"),
        isolated: scenario.isolated.clone(),
        tickless: scenario.tickless.clone(),
        policy: scenario.policy,
        tick: scenario.tick,
        slice: scenario.slice,
        real_time: scenario.real_time,
        slow_counter: scenario.slow_counter,
        counter: scenario.counter,
        late_max: scenario.late_max + Picos(allowed),
        keeps_ledger: false,
        group_of: groups::group_of(scenario),
        canary: scenario.canary,
        faults,
        fault_seed: seed,
    }
}

/// Runs a scenario. The same seed gives the same outcome.
///
/// # Panics
///
/// When a machine already runs on this thread, or when the scenario was changed into an impossible one.
#[must_use]
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    run_with(scenario, seed, None)
}

/// Runs `scenario` as [`run`] does, and records every event in `sink`. The outcome is the same.
///
/// # Panics
///
/// See [`run`].
#[must_use]
pub fn run_recorded(scenario: &Scenario, seed: u64, sink: SharedSink) -> Outcome {
    run_with(scenario, seed, Some(Recorder::new(sink)))
}

fn run_with(scenario: &Scenario, seed: u64, recorder: Option<Recorder>) -> Outcome {
    let keeps_ledger = recorder.is_some();
    let (outcome, _) = run_once(scenario, seed, recorder, keeps_ledger);
    if keeps_ledger || !outcome.broken.contains_key(&Promise::NeverLost) {
        return outcome;
    }
    // Once more, to count what was lost.
    run_once(scenario, seed, None, true).0
}

/// Runs `scenario` as [`run`] does, and also returns the number of starts of queued timers that kept their place among
/// the other timers of their queue.
pub(crate) fn run_counting_places(scenario: &Scenario, seed: u64) -> (Outcome, u64) {
    let (outcome, ledger) = run_once(scenario, seed, None, true);
    let ledger = ledger.expect("it was asked for");
    (outcome, ledger.keeps_place())
}

fn run_once(
    scenario: &Scenario,
    seed: u64,
    recorder: Option<Recorder>,
    keeps_ledger: bool,
) -> (Outcome, Option<Ledger>) {
    let mut random = Random::new(seed);
    if let Some(canary) = scenario.canary
        && canary.breaks(Promise::Deterministic)
    {
        random = Random::new(seed ^ whim());
    }
    let mut settings = settings(scenario, seed);
    settings.keeps_ledger = keeps_ledger;
    if let Some(recorder) = &recorder {
        recorder.begin(&header(scenario, seed, &settings));
    }
    let mut executor = Executor::new(&settings, recorder);
    for placed in &scenario.workloads {
        tasks::add(placed, &mut executor, random.bits());
    }
    executor.run(scenario.duration);
    checks::end(executor.machine(), scenario.duration);
    let outcome = outcome(scenario, seed, executor.machine_mut());
    let ledger = executor.machine().host().checker.borrow_mut().ledger.take();
    (outcome, ledger)
}

/// Runs `scenario` twice. The outcome breaks the promise [`Deterministic`](Promise::Deterministic) if the second run
/// differs.
#[must_use]
pub fn run_twice(scenario: &Scenario, seed: u64) -> Outcome {
    compared(scenario, run(scenario, seed), seed)
}

/// Runs `scenario` twice, as [`run_twice`] does, and records the first run in `sink`.
///
/// # Panics
///
/// See [`run`].
#[must_use]
pub fn run_twice_recorded(scenario: &Scenario, seed: u64, sink: SharedSink) -> Outcome {
    compared(scenario, run_recorded(scenario, seed, sink), seed)
}

/// Returns the outcome of the `first` run, after a comparison with a second one.
fn compared(scenario: &Scenario, mut first: Outcome, seed: u64) -> Outcome {
    let second = run(scenario, seed);
    let wrong = deterministic::differ(first == second, first.digest, second.digest);
    if let Some(what) = wrong {
        *first.broken.entry(Promise::Deterministic).or_default() += 1;
        first.violations.push(Violation {
            promise: Promise::Deterministic,
            at: first.duration,
            cpu: 0,
            what,
        });
    }
    first
}

fn header(scenario: &Scenario, seed: u64, settings: &Settings) -> Header {
    let is_promised = |cpu: &u32| settings.promised_isolation(*cpu);
    Header {
        scenario: scenario.name.clone(),
        profile: scenario.profile.name.clone(),
        seed,
        library: env!("CARGO_PKG_VERSION"),
        cpus: scenario.cpus,
        tick: settings.tick.as_nanos(),
        late_max: settings.late_max.as_nanos(),
        isolated: (0..scenario.cpus).filter(is_promised).collect(),
    }
}

fn outcome(scenario: &Scenario, seed: u64, machine: &mut Machine) -> Outcome {
    let residency: Vec<Residency> = machine
        .states
        .iter()
        .enumerate()
        .map(|(index, state)| Residency {
            state: state.name.clone(),
            deep: state.deep,
            time: Picos(machine.cpus.iter().map(|cpu| cpu.residency[index].0).sum()),
        })
        .collect();
    let energy: u128 = residency
        .iter()
        .zip(&machine.states)
        .map(|(one, state)| u128::from(one.time.0) * u128::from(state.milliwatts))
        .sum();
    let idle_milliwatts = energy / u128::from(scenario.duration.0.max(1));
    let series = std::mem::take(&mut machine.series);
    let is_fair = scenario.policy.scheduler == Scheduler::Fair;
    let tasks = machine.tasks.iter().filter(|_| is_fair);
    let shares = tasks.map(|task| Share {
        cpu: task.cpu,
        weight: task.weight.get(),
        had: task.had,
    });
    let shares = shares.collect();
    let host = machine.host();
    let faults = host.faults.as_ref().map(RefCell::borrow);
    let mut checker = host.checker.borrow_mut();
    let (lock_waits, lock_waited) = cost_model::waits();
    checker.counts.lock_waits = lock_waits;
    checker.counts.lock_waited = lock_waited;
    checker.counts.slow_reads = host.slow_counter.borrow().served();
    (checker.counts.timed_starts, checker.counts.starting) = current_cpu::starts();
    let per_cpu: Vec<CpuOutcome> = (0..)
        .zip(&machine.cpus)
        .map(|(cpu, state)| CpuOutcome {
            cpu,
            longest_theft: state.longest_theft,
            residency: state.residency.clone(),
        })
        .collect();
    Outcome {
        scenario: scenario.name.clone(),
        profile: scenario.profile.name.clone(),
        version: env!("CARGO_PKG_VERSION"),
        seed,
        cpus: scenario.cpus,
        duration: scenario.duration,
        counts: checker.counts,
        series,
        late_own: std::mem::take(&mut checker.late_own),
        late_remote: std::mem::take(&mut checker.late_remote),
        late_exact: std::mem::take(&mut checker.late_exact),
        residency,
        idle_milliwatts: u64::try_from(idle_milliwatts).unwrap_or(u64::MAX),
        groups: groups::groups(&mut checker.tallies, scenario, &per_cpu),
        per_cpu,
        shares,
        faults: faults
            .as_ref()
            .map_or_else(Vec::new, |one| one.plan.to_vec()),
        fault_counts: faults.iter().flat_map(|one| one.counted()).collect(),
        broken: std::mem::take(&mut checker.broken),
        violations: std::mem::take(&mut checker.violations),
        digest: checker.digest(),
    }
}
