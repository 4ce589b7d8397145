//! Scenarios: a machine, its policies, and what runs on it, as a file.
//!
//! ```
//! use tickless_sim::{Scenario, run};
//!
//! let text = r#"
//! name = "two CPUs"
//! profile = "skl-112"
//! cpus = 2
//! duration = "50 ms"
//!
//! [[workload]]
//! kind = "cyclictest"
//! cpus = "1"
//! period = "1 ms"
//! "#;
//! let scenario = Scenario::from_toml(text, "two.toml")?;
//! let outcome = run(&scenario, 1);
//! assert!(outcome.holds(), "{:?}", outcome.violations);
//! assert!(outcome.series("latency").is_some_and(|latency| latency.count() > 40));
//! # Ok::<(), tickless_sim::InputError>(())
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::baseline::Policy;
use crate::clock::{self, CounterModel, RawCounter};
use crate::fault::{self, Fault, RawFault};
use crate::machine::machine::{Settings, World};
use crate::model::broadcast::BroadcastDevice;
use crate::model::device::{self, Device, RawDevice};
use crate::model::input::{InputError, Source};
use crate::model::profile::{self, EMBEDDED, Profile};
use crate::model::time::Picos;
use crate::model::topology::CPUS_MAX;
use crate::model::{cost_model, cpu_set, current_cpu};
use crate::promise::Promise;
use crate::promise::canary::Canary;
use crate::random::Random;
use crate::record::{Header, Recorder, SharedSink};
use crate::run::groups;
use crate::run::outcome::{CpuOutcome, Outcome, Residency};
use crate::workload::{self, Placed, RawWorkload};

/// No slice is shorter (spec TICK-15).
const SHORTEST_SLICE: Picos = Picos::from_micros(10);

/// A machine and what runs on it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What things cost.
    pub profile: Profile,
    /// Its clock event devices, if they are others than those of the profile.
    pub device: Option<Device>,
    /// The number of CPUs.
    pub cpus: u32,
    /// How long it is, in virtual time.
    pub duration: Picos,
    /// How long a tick is.
    pub tick: Picos,
    /// How long a task runs while others of its priority wait for the CPU; without, as long as it wants.
    pub slice: Option<Picos>,
    /// Which CPUs are isolated.
    pub isolated: Vec<bool>,
    /// On which CPUs tasks run without a tick where nothing depends on one.
    pub tickless: Vec<bool>,
    /// The soft stage is a thread, as in a real-time kernel.
    pub real_time: bool,
    /// The clock is the slow counter that all CPUs share.
    pub slow_counter: bool,
    /// The counter that drives the clocks.
    pub counter: CounterModel,
    /// How late a timer may be.
    pub late_max: Picos,
    /// Everything that happens is written down.
    pub logs: bool,
    /// What is not as in the library.
    pub policy: Policy,
    /// What runs.
    pub workloads: Vec<Placed>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// The seed of a run draws more that goes wrong.
    pub draws_faults: bool,
    /// The promise that is broken on purpose.
    #[serde(skip)]
    pub canary: Option<Canary>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: String,
    profile: Spanned<String>,
    device: Option<Spanned<RawDevice>>,
    cpus: Option<Spanned<u32>>,
    duration: Spanned<String>,
    tick: Option<Spanned<String>>,
    slice: Option<Spanned<String>>,
    isolated: Option<Spanned<String>>,
    tickless: Option<Spanned<String>>,
    stops_in: Option<Spanned<String>>,
    broadcast: Option<BroadcastDevice>,
    #[serde(default)]
    real_time: bool,
    #[serde(default)]
    slow_counter: bool,
    counter: Option<RawCounter>,
    late_max: Option<Spanned<String>>,
    #[serde(default)]
    logs: bool,
    #[serde(default)]
    policy: Policy,
    #[serde(default)]
    workload: Vec<Spanned<RawWorkload>>,
    faults: Option<Spanned<String>>,
    #[serde(default)]
    fault: Vec<Spanned<RawFault>>,
}

impl Scenario {
    /// Reads a scenario. `file` is its name, for messages.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, InputError> {
        Self::from_toml_with(text, file, &[])
    }

    /// As [`from_toml`](Self::from_toml), with more profiles to choose from than those that come with the library.
    ///
    /// # Errors
    ///
    /// See [`from_toml`](Self::from_toml).
    pub fn from_toml_with(
        text: &str,
        file: &str,
        profiles: &[Profile],
    ) -> Result<Self, InputError> {
        let source = Source { file, text };
        let raw: RawScenario = source.read()?;
        let mut profile = profile(&source, &raw.profile, profiles)?;
        if let Some(field) = &raw.stops_in {
            profile::stop_from(&source, field, &mut profile.idle)?;
        }
        profile.broadcast = raw.broadcast.or(profile.broadcast);
        let device = match &raw.device {
            None => None,
            Some(raw) => Some(device::read(&source, raw, &profile.device)?),
        };
        let cpus = cpus(&source, raw.cpus.as_ref(), &profile)?;
        let isolated = isolated(&source, raw.isolated.as_ref(), cpus)?;
        let tickless = tickless(&source, raw.tickless.as_ref(), cpus, &isolated)?;
        let time = |field: &Option<Spanned<String>>, default| {
            field
                .as_ref()
                .map_or(Ok(default), |field| source.time(field))
        };
        let tick = time(&raw.tick, Picos::from_millis(1))?;
        if let Some(field) = raw.tick.as_ref().filter(|_| tick < Picos::from_micros(10)) {
            let wrong = "the tick would do nothing but tick";
            return Err(source.error(field.span(), wrong, "10 us at least"));
        }
        let slice = slice(&source, raw.slice.as_ref())?;
        let duration = source.time(&raw.duration)?;
        if duration == Picos::ZERO {
            let wrong = "nothing would happen";
            return Err(source.error(raw.duration.span(), wrong, "it has to be longer than 0"));
        }
        let workloads = raw.workload.iter();
        let workloads = workloads.map(|one| workload::read(&source, one, cpus, &isolated));
        let faults = fault::read_all(&source, &raw.fault, (cpus, duration), &isolated)?;
        Ok(Self {
            name: raw.name,
            device,
            cpus,
            duration,
            tick,
            slice,
            real_time: raw.real_time,
            slow_counter: raw.slow_counter,
            counter: match &raw.counter {
                None => CounterModel::IDEAL,
                Some(raw) => clock::read(&source, raw)?,
            },
            late_max: time(&raw.late_max, tick * 3)?,
            logs: raw.logs,
            policy: raw.policy,
            workloads: workloads.collect::<Result<_, _>>()?,
            faults,
            draws_faults: draws_faults(&source, raw.faults.as_ref())?,
            isolated,
            tickless,
            profile,
            canary: None,
        })
    }

    /// What goes wrong when `seed` runs.
    #[must_use]
    pub fn fault_plan(&self, seed: u64) -> Vec<Fault> {
        let mut plan = self.faults.clone();
        if self.draws_faults {
            fault::draw(&mut plan, seed, self.cpus, self.duration);
        }
        plan
    }

    fn settings(&self, seed: u64) -> Settings {
        let faults: Rc<[Fault]> = self.fault_plan(seed).into();
        let allowed = faults
            .iter()
            .map(|fault| fault.allows(self.duration).0)
            .sum();
        let resized = self.profile.topology.resized(self.cpus);
        Settings {
            profile: self.profile.clone(),
            device: self.device.as_ref().unwrap_or(&self.profile.device).clone(),
            topology: resized.expect("looked at when the scenario was read"),
            isolated: self.isolated.clone(),
            tickless: self.tickless.clone(),
            policy: self.policy,
            tick: self.tick,
            slice: self.slice,
            real_time: self.real_time,
            slow_counter: self.slow_counter,
            counter: self.counter,
            late_max: self.late_max + Picos(allowed),
            logs: self.logs,
            keeps_ledger: false,
            group_of: groups::group_of(self),
            canary: self.canary,
            faults,
            fault_seed: seed,
        }
    }
}

/// The profile that `field` names: one of those `given`, or of those that come with the library.
fn profile(
    source: &Source<'_>,
    field: &Spanned<String>,
    given: &[Profile],
) -> Result<Profile, InputError> {
    let name = field.get_ref().as_str();
    let own = given.iter().find(|profile| profile.name == name).cloned();
    own.or_else(|| Profile::embedded(name)).ok_or_else(|| {
        let own = given.iter().map(|profile| profile.name.as_str());
        let known: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).chain(own).collect();
        let wrong = format!("there is no profile \"{name}\"");
        source.error(field.span(), wrong, format!("one of {}", known.join(", ")))
    })
}

/// The CPUs whose tasks run without a tick: somebody has to count for them.
fn tickless(
    source: &Source<'_>,
    field: Option<&Spanned<String>>,
    cpus: u32,
    isolated: &[bool],
) -> Result<Vec<bool>, InputError> {
    let set = field.map_or(Ok(Vec::new()), |set| {
        cpu_set::parse(source, set, cpus, isolated)
    })?;
    let tickless: Vec<bool> = (0..cpus).map(|cpu| set.contains(&cpu)).collect();
    let ticks = |cpu: usize| !tickless[cpu] && !isolated[cpu];
    match field {
        Some(field) if !(0..tickless.len()).any(ticks) => {
            let wrong = "nobody would count ticks";
            Err(source.error(field.span(), wrong, "leave one for housekeeping"))
        }
        _ => Ok(tickless),
    }
}

/// Which CPUs are isolated.
fn isolated(
    source: &Source<'_>,
    raw: Option<&Spanned<String>>,
    cpus: u32,
) -> Result<Vec<bool>, InputError> {
    let Some(set) = raw else {
        return Ok(vec![false; cpus as usize]);
    };
    let isolated = cpu_set::parse(source, set, cpus, &[])?;
    let isolated: Vec<bool> = (0..cpus).map(|cpu| isolated.contains(&cpu)).collect();
    if isolated.iter().all(|one| *one) {
        let wrong = "all CPUs are isolated";
        return Err(source.error(set.span(), wrong, "leave one for housekeeping"));
    }
    Ok(isolated)
}

fn slice(
    source: &Source<'_>,
    field: Option<&Spanned<String>>,
) -> Result<Option<Picos>, InputError> {
    let Some(field) = field else {
        return Ok(None);
    };
    let slice = source.time(field)?;
    if slice < SHORTEST_SLICE {
        let wrong = "a CPU would do nothing but switch";
        return Err(source.error(field.span(), wrong, format!("{SHORTEST_SLICE} at least")));
    }
    Ok(Some(slice))
}

fn draws_faults(source: &Source<'_>, field: Option<&Spanned<String>>) -> Result<bool, InputError> {
    match field.map(|field| (field, field.get_ref().as_str())) {
        None | Some((_, "none")) => Ok(false),
        Some((_, "drawn")) => Ok(true),
        Some((field, other)) => {
            let wrong = format!("there are no faults \"{other}\"");
            let right = "none, drawn, or [[fault]] tables";
            Err(source.error(field.span(), wrong, right))
        }
    }
}

fn cpus(
    source: &Source<'_>,
    field: Option<&Spanned<u32>>,
    profile: &Profile,
) -> Result<u32, InputError> {
    let Some(field) = field else {
        return Ok(profile.topology.cpus());
    };
    let cpus = *field.get_ref();
    let wrong = |right: String| {
        let wrong = format!("there is no such machine with {cpus} CPUs");
        Err(source.error(field.span(), wrong, right))
    };
    if cpus == 0 || cpus > CPUS_MAX {
        return wrong(format!("1 to {CPUS_MAX}"));
    }
    if profile.topology.resized(cpus).is_none() {
        let socket = profile.topology.cpus_of_socket();
        return wrong(format!("whole sockets of {socket}, or a part of one"));
    }
    Ok(cpus)
}

/// Lets a scenario happen. The same seed gives the same outcome.
///
/// # Panics
///
/// When a world runs on this thread already, or the scenario was changed into one that cannot be.
#[must_use]
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    run_with(scenario, seed, None)
}

/// As [`run`], and tells `sink` everything that happens. The outcome is the same.
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
    let outcome = run_once(scenario, seed, recorder, keeps_ledger);
    if keeps_ledger || !outcome.broken.contains_key(&Promise::NeverLost) {
        return outcome;
    }
    // Once more, to count what was lost.
    run_once(scenario, seed, None, true)
}

fn run_once(
    scenario: &Scenario,
    seed: u64,
    recorder: Option<Recorder>,
    keeps_ledger: bool,
) -> Outcome {
    let mut random = Random::new(seed);
    if let Some(canary) = scenario.canary
        && canary.breaks(Promise::Deterministic)
    {
        random = Random::new(seed ^ crate::promise::canary::whim());
    }
    let mut settings = scenario.settings(seed);
    settings.keeps_ledger = keeps_ledger;
    if let Some(recorder) = &recorder {
        recorder.begin(&header(scenario, seed, &settings));
    }
    let mut world = World::new(&settings, recorder);
    for placed in &scenario.workloads {
        placed.add_to(&mut world, random.bits());
    }
    world.run(scenario.duration);
    world.check_end(scenario.duration);
    outcome(scenario, seed, &mut world)
}

/// As [`run`], twice: the outcome breaks the promise [`Deterministic`](Promise::Deterministic) if the second run was
/// another one.
#[must_use]
pub fn run_twice(scenario: &Scenario, seed: u64) -> Outcome {
    compared(scenario, run(scenario, seed), seed)
}

/// As [`run_twice`], and tells `sink` of the first run.
///
/// # Panics
///
/// See [`run`].
#[must_use]
pub fn run_twice_recorded(scenario: &Scenario, seed: u64, sink: SharedSink) -> Outcome {
    compared(scenario, run_recorded(scenario, seed, sink), seed)
}

/// What came of the `first` run, and whether a second one is the same.
fn compared(scenario: &Scenario, mut first: Outcome, seed: u64) -> Outcome {
    first.is_what_comes_again(&run(scenario, seed));
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

fn outcome(scenario: &Scenario, seed: u64, world: &mut World) -> Outcome {
    let residency: Vec<Residency> = world
        .states
        .iter()
        .enumerate()
        .map(|(index, state)| Residency {
            state: state.name.clone(),
            deep: state.deep,
            time: Picos(world.cpus.iter().map(|cpu| cpu.residency[index].0).sum()),
        })
        .collect();
    let energy: u128 = residency
        .iter()
        .zip(&world.states)
        .map(|(one, state)| u128::from(one.time.0) * u128::from(state.milliwatts))
        .sum();
    let idle_milliwatts = energy / u128::from(scenario.duration.0.max(1));
    let host = world.timers.platform();
    let faults = host.faults.as_ref().map(RefCell::borrow);
    let mut watch = host.watch.borrow_mut();
    let (lock_waits, lock_waited) = cost_model::waits();
    watch.counts.lock_waits = lock_waits;
    watch.counts.lock_waited = lock_waited;
    (watch.counts.timed_starts, watch.counts.starting) = current_cpu::starts();
    let per_cpu: Vec<CpuOutcome> = (0..)
        .zip(&world.cpus)
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
        counts: watch.counts,
        series: std::mem::take(&mut world.series),
        late_own: std::mem::take(&mut watch.late_own),
        late_remote: std::mem::take(&mut watch.late_remote),
        late_exact: std::mem::take(&mut watch.late_exact),
        residency,
        idle_milliwatts: u64::try_from(idle_milliwatts).unwrap_or(u64::MAX),
        groups: watch.tallies.groups(scenario, &per_cpu),
        per_cpu,
        faults: faults
            .as_ref()
            .map_or_else(Vec::new, |one| one.plan.to_vec()),
        fault_counts: faults.iter().flat_map(|one| one.counted()).collect(),
        broken: std::mem::take(&mut watch.broken),
        violations: std::mem::take(&mut watch.violations),
        digest: watch.digest(),
        log: watch.take_log(),
    }
}
