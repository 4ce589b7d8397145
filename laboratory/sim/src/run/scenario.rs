//! Scenarios: a machine, its policies and its workloads, read from a file. The documentation of the [crate] shows an
//! example.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::baseline::Policy;
use crate::clock::{self, CounterModel, RawCounter};
use crate::fault::{self, Fault, RawFault};
use crate::model::broadcast::BroadcastDevice;
use crate::model::cpu_set;
use crate::model::device::{self, Device, RawDevice};
use crate::model::input::{InputError, Source};
use crate::model::profile::{self, EMBEDDED, Profile};
use crate::model::time::Picos;
use crate::model::topology::CPUS_MAX;
use crate::promise::canary::Canary;
use crate::workload::{self, Placed, RawWorkload};

/// The shortest allowed slice (spec TICK-15).
const SHORTEST_SLICE: Picos = Picos::from_micros(10);

/// A machine, its policies and its workloads.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Scenario {
    /// The name of the scenario.
    pub name: String,
    /// The machine and its costs.
    pub profile: Profile,
    /// The clock event devices, if they differ from those of the profile.
    pub device: Option<Device>,
    /// The number of CPUs.
    pub cpus: u32,
    /// The duration, in virtual time.
    pub duration: Picos,
    /// The duration of a tick.
    pub tick: Picos,
    /// The time that a task runs while other tasks of its priority wait for the CPU; `None` if it runs as long as it
    /// wants.
    pub slice: Option<Picos>,
    /// True for each CPU that is isolated.
    pub isolated: Vec<bool>,
    /// True for each CPU whose tasks run without a tick while nothing depends on the tick.
    pub tickless: Vec<bool>,
    /// True if the soft stage is a thread, as in a real-time kernel.
    pub real_time: bool,
    /// True if the clock reads the slow counter that all CPUs share.
    pub slow_counter: bool,
    /// The counter that drives the clocks.
    pub counter: CounterModel,
    /// The largest lateness that a timer may have.
    pub late_max: Picos,
    /// The policies, where they differ from the library's.
    pub policy: Policy,
    /// The workloads.
    pub workloads: Vec<Placed>,
    /// The planned faults, without the random faults of a seed.
    pub faults: Vec<Fault>,
    /// True if the seed of a run adds random faults.
    pub draws_faults: bool,
    /// The promise that the machine breaks on purpose.
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
    /// The first error in the file.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, InputError> {
        Self::from_toml_with(text, file, &[])
    }

    /// Reads a scenario as [`from_toml`](Self::from_toml) does. The scenario may also name one of `profiles`.
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
        let workloads: Vec<Placed> = workloads.collect::<Result<_, _>>()?;
        workload::reservation::fit(&source, &raw.workload, &workloads, cpus)?;
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
            policy: raw.policy,
            workloads,
            faults,
            draws_faults: draws_faults(&source, raw.faults.as_ref())?,
            isolated,
            tickless,
            profile,
            canary: None,
        })
    }

    /// Returns the faults of a run with `seed`.
    #[must_use]
    pub fn fault_plan(&self, seed: u64) -> Vec<Fault> {
        let mut plan = self.faults.clone();
        if self.draws_faults {
            fault::draw(&mut plan, seed, self.cpus, self.duration);
        }
        plan
    }
}

/// Returns the profile that `field` names: one of those in `given`, or one of those that come with the library.
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

/// Reads the set of CPUs whose tasks run without a tick. Returns an error if no CPU is left to count for them.
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
            let wrong = "no CPU would count ticks";
            Err(source.error(field.span(), wrong, "leave one for housekeeping"))
        }
        _ => Ok(tickless),
    }
}

/// Reads the set of isolated CPUs.
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
