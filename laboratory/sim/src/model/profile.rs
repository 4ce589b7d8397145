//! The profile of a machine: the costs of its operations, read from a file in which every number names its source.
//!
//! The files in `profiles` show the format. `laboratory/docs/simulator.md`, "Profiles", explains the marks A, B and C.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::model::broadcast::BroadcastDevice;
use crate::model::costs::{Costs, RawCosts};
use crate::model::device::{self, Device, RawDevice};
use crate::model::input::{InputError, Source};
use crate::model::mark::Mark;
use crate::model::time::Picos;
use crate::model::topology::{CPUS_MAX, Numbering, Topology};

/// The profiles that come with the library, by name and text.
pub const EMBEDDED: [(&str, &str); 4] = [
    ("skl-112", include_str!("../../profiles/skl-112.toml")),
    ("hsw-144", include_str!("../../profiles/hsw-144.toml")),
    ("epyc-128", include_str!("../../profiles/epyc-128.toml")),
    ("vm-64", include_str!("../../profiles/vm-64.toml")),
];

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleState {
    /// The name of the state.
    pub name: String,
    /// The exit latency that the governor assumes.
    pub believed_exit: Picos,
    /// The shortest stay that pays, as the governor assumes.
    pub believed_residency: Picos,
    /// The time for which the CPU polls in the shallowest state before it enters this state, as CPUs of virtual
    /// machines do.
    pub polls_first: Picos,
    /// The real exit latency.
    pub exit: Picos,
    /// The power that a core draws in this state, in milliwatts.
    pub milliwatts: u32,
    /// True if time in this state counts as deep idle.
    pub deep: bool,
    /// True if the CPU's own device stops in the state, so that another device or timer has to wake the CPU.
    pub stops: bool,
    /// The confidence in the real exit latency.
    pub mark: Mark,
    /// The source of the numbers.
    pub source: String,
}

/// A machine and the costs of its operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// The name of the profile.
    pub name: String,
    /// The description of the machine.
    pub about: String,
    /// The shape of the machine.
    pub topology: Topology,
    /// The costs of operations.
    pub costs: Costs,
    /// The clock event devices.
    pub device: Device,
    /// The idle states, the shallowest first.
    pub idle: Vec<IdleState>,
    /// The device or timer that wakes CPUs from states in which their own device stops. Without it CPUs never enter
    /// these states.
    pub broadcast: Option<BroadcastDevice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProfile {
    name: String,
    about: String,
    broadcast: Option<BroadcastDevice>,
    topology: Spanned<RawTopology>,
    costs: RawCosts,
    device: Option<Spanned<RawDevice>>,
    idle: Vec<Spanned<RawIdle>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTopology {
    sockets: u32,
    caches: u32,
    cores: u32,
    threads: u32,
    nodes: u32,
    numbering: RawNumbering,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawNumbering {
    Neighbours,
    ThreadsLast,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawIdle {
    name: String,
    believed_exit: Spanned<String>,
    believed_residency: Spanned<String>,
    polls_first: Option<Spanned<String>>,
    exit: Spanned<String>,
    milliwatts: u32,
    #[serde(default)]
    deep: bool,
    #[serde(default)]
    stops: bool,
    mark: Mark,
    source: String,
}

impl Profile {
    /// Reads a profile. `file` is its name, for messages.
    ///
    /// # Errors
    ///
    /// The first error in the file.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, InputError> {
        let source = Source { file, text };
        let raw: RawProfile = source.read()?;
        let topology = topology(&source, &raw.topology)?;
        let costs = raw.costs.read(&source)?;
        let mut device = Device::default();
        if let Some(raw) = &raw.device {
            device = device::read(&source, raw, &device)?;
        }
        let mut idle: Vec<IdleState> = Vec::new();
        for state in &raw.idle {
            let span = state.span();
            let state = idle_state(&source, state.get_ref())?;
            if let Some(before) = idle.last()
                && before.believed_residency > state.believed_residency
            {
                let wrong = format!("{} pays sooner than {}", state.name, before.name);
                return Err(source.error(span, wrong, "put the shallowest state first"));
            }
            require_stops(&source, span, idle.last(), &state)?;
            idle.push(state);
        }
        if idle.is_empty() {
            let wrong = "there is no idle state";
            return Err(source.error(0..0, wrong, "add [[idle]], polling at least"));
        }
        Ok(Self {
            name: raw.name,
            about: raw.about,
            topology,
            costs,
            device,
            idle,
            broadcast: raw.broadcast,
        })
    }

    /// Returns a profile that comes with the library; `None` if there is none with this name.
    ///
    /// # Panics
    ///
    /// When the embedded file is wrong, which a test excludes.
    #[must_use]
    pub fn embedded(name: &str) -> Option<Self> {
        // A hunt wants one for each world, and to read it takes longer than to build the world.
        static READ: [OnceLock<Profile>; EMBEDDED.len()] =
            [const { OnceLock::new() }; EMBEDDED.len()];
        let mut known = EMBEDDED.into_iter().zip(&READ);
        let ((name, text), read) = known.find(|((known, _), _)| *known == name)?;
        let profile = read.get_or_init(|| {
            let profile = Self::from_toml(text, name);
            profile.expect("embedded profiles are tried by a test")
        });
        Some(profile.clone())
    }
}

/// Sets that the device of a CPU stops in the state that `field` names, and in deeper states.
pub(crate) fn stop_from(
    source: &Source<'_>,
    field: &Spanned<String>,
    states: &mut [IdleState],
) -> Result<(), InputError> {
    let name = field.get_ref().as_str();
    let place = states.iter().position(|state| state.name == name);
    let names: Vec<&str> = states
        .iter()
        .skip(1)
        .map(|state| state.name.as_str())
        .collect();
    let wrong = match place {
        None => format!("there is no idle state \"{name}\""),
        Some(0) => format!(
            "no state would be left in which the device goes on, as {name} is the shallowest"
        ),
        Some(place) => {
            for (index, state) in states.iter_mut().enumerate() {
                state.stops = index >= place;
            }
            return Ok(());
        }
    };
    let right = format!("one of {}", names.join(", "));
    Err(source.error(field.span(), wrong, right))
}

fn topology(source: &Source<'_>, raw: &Spanned<RawTopology>) -> Result<Topology, InputError> {
    let shape = raw.get_ref();
    let counts = [shape.sockets, shape.caches, shape.cores, shape.threads];
    let wrong = |wrong: &str, right: &str| Err(source.error(raw.span(), wrong, right));
    if counts.contains(&0) || shape.nodes == 0 {
        return wrong("a machine without CPUs", "all counts are 1 at least");
    }
    let cpus = counts.into_iter().try_fold(1_u32, u32::checked_mul);
    if cpus.is_none_or(|cpus| cpus > CPUS_MAX) {
        return wrong("too many CPUs", "4096 at most");
    }
    if !shape.caches.is_multiple_of(shape.nodes) {
        return wrong(
            "the caches of a socket cannot be divided among its nodes",
            "nodes must divide caches",
        );
    }
    Ok(Topology {
        sockets: shape.sockets,
        caches: shape.caches,
        cores: shape.cores,
        threads: shape.threads,
        nodes: shape.nodes,
        numbering: match shape.numbering {
            RawNumbering::Neighbours => Numbering::Neighbours,
            RawNumbering::ThreadsLast => Numbering::ThreadsLast,
        },
    })
}

/// Returns an error if the device stops in the shallowest state, or stops in a state and not in the next deeper one.
fn require_stops(
    source: &Source<'_>,
    span: std::ops::Range<usize>,
    before: Option<&IdleState>,
    state: &IdleState,
) -> Result<(), InputError> {
    let (wrong, right) = match before {
        None if state.stops => (
            format!("the device stops in {}, the shallowest state", state.name),
            "leave a state in which it goes on",
        ),
        Some(before) if before.stops && !state.stops => (
            format!(
                "the device stops in {}, and not in {}, which is deeper",
                before.name, state.name
            ),
            "write stops = true here, too",
        ),
        _ => return Ok(()),
    };
    Err(source.error(span, wrong, right))
}

fn idle_state(source: &Source<'_>, raw: &RawIdle) -> Result<IdleState, InputError> {
    let polls = raw.polls_first.as_ref();
    Ok(IdleState {
        name: raw.name.clone(),
        believed_exit: source.time(&raw.believed_exit)?,
        believed_residency: source.time(&raw.believed_residency)?,
        polls_first: polls.map_or(Ok(Picos::ZERO), |polls| source.time(polls))?,
        exit: source.time(&raw.exit)?,
        milliwatts: raw.milliwatts,
        deep: raw.deep,
        stops: raw.stops,
        mark: raw.mark,
        source: raw.source.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::{EMBEDDED, Profile};

    const TEXT: &str = EMBEDDED[0].1;

    /// Returns the error message for a good profile in which `from` is replaced by `to`.
    fn error_with(from: &str, to: &str) -> String {
        assert!(TEXT.contains(from), "{from}");
        let text = TEXT.replacen(from, to, 1);
        Profile::from_toml(&text, "p.toml")
            .expect_err("it is wrong")
            .to_string()
    }

    #[test]
    fn embedded_profiles_are_right() {
        for (name, text) in EMBEDDED {
            let profile = Profile::from_toml(text, name).unwrap();
            assert_eq!(profile.name, name);
            let cpus: u32 = name[name.len() - 3..]
                .trim_start_matches('-')
                .parse()
                .unwrap();
            assert_eq!(profile.topology.cpus(), cpus);
            assert!(profile.idle.iter().any(|state| state.deep));
        }
        assert_eq!(Profile::embedded("no-such"), None);
    }

    #[test]
    fn a_wrong_unit_is_shown_with_its_place() {
        let line = 1 + TEXT[..TEXT.find("counter =").unwrap()]
            .matches('\n')
            .count();
        assert_eq!(
            error_with("use = \"25 ns\"", "use = \"25 MHz\""),
            format!(
                "p.toml:{line}: counter: \"25 MHz\" is not a time; write a number and a unit, ps, ns, us, ms or s, \
                 such as \"1.5 us\""
            )
        );
    }

    #[test]
    fn unknown_and_missing_costs_are_named() {
        let error = error_with("counter =", "conter =");
        assert!(
            error.contains("conter: unknown field `conter`; expected"),
            "{error}"
        );
        let line = TEXT
            .lines()
            .find(|line| line.starts_with("counter "))
            .unwrap();
        let error = error_with(line, "");
        assert!(error.contains("missing field `counter`"), "{error}");
    }

    #[test]
    fn impossible_machines_are_refused() {
        assert!(error_with("sockets = 2", "sockets = 0").contains("without CPUs"));
        assert!(error_with("sockets = 2", "sockets = 2000").contains("4096 at most"));
        assert!(error_with("nodes = 1", "nodes = 2").contains("nodes must divide caches"));
        assert!(error_with("threads-last", "threads-list").contains("threads-list"));
    }

    #[test]
    fn a_value_out_of_its_own_range_is_refused() {
        let error = error_with("use = \"25 ns\"", "use = \"90 ns\"");
        assert!(error.contains("90 ns is not between"), "{error}");
    }
}
