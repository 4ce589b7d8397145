//! The shape of the machine in the terms of profiles, and its idle states.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tickless::topology::{CpuSet, Topology as Machine};
use tickless_sim::{Distance, IdleState, Mark, Numbering, Picos, Profile, Topology};

/// The shape, and the respects in which the machine differs from it.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) topology: Topology,
    pub(super) remark: &'static str,
}

/// Returns the common size, if all sizes are the same.
fn common(sizes: impl Iterator<Item = usize>) -> Option<u32> {
    let sizes: BTreeSet<usize> = sizes.collect();
    let size = (sizes.len() == 1).then(|| sizes.first().copied())??;
    u32::try_from(size).ok().filter(|size| *size > 0)
}

/// Returns the shape of `machine`, if the machine is as regular as profiles assume.
fn regular(machine: &Machine) -> Option<Topology> {
    let cpus = u32::try_from(machine.cpus().len()).ok()?;
    let packages = machine.packages();
    let sockets = u32::try_from(packages.len()).ok()?;
    common(packages.values().map(CpuSet::len))?;
    let threads = common(machine.cores().iter().map(|core| core.len()))?;
    let of_cache = match common(
        machine
            .last_level_caches()
            .iter()
            .map(|cache| cache.cpus.len()),
    ) {
        Some(size) => size,
        // Nothing is known of caches: one for each socket.
        None if machine.last_level_caches().is_empty() => cpus / sockets,
        None => return None,
    };
    let cores = of_cache / threads;
    let caches = cpus.checked_div(sockets * cores * threads)?;
    let nodes = u32::try_from(machine.nodes().len()).ok()? / sockets;
    let nodes = if nodes > 0 && caches.is_multiple_of(nodes) {
        nodes
    } else {
        1
    };
    let first = &machine.cpus().first()?.siblings;
    let numbering = if first.iter().zip(0..).all(|(cpu, place)| cpu == place) {
        Numbering::Neighbours
    } else {
        Numbering::ThreadsLast
    };
    let topology = Topology {
        sockets,
        caches,
        cores,
        threads,
        nodes,
        numbering,
    };
    (topology.cpus() == cpus).then_some(topology)
}

impl Shape {
    pub(super) fn of(machine: &Machine) -> Self {
        if let Some(topology) = regular(machine) {
            return Self {
                topology,
                remark: "",
            };
        }
        Self {
            topology: Topology {
                sockets: 1,
                caches: 1,
                cores: u32::try_from(machine.cpus().len()).unwrap_or(1),
                threads: 1,
                nodes: 1,
                numbering: Numbering::Neighbours,
            },
            remark: "; its parts differ, so it is described as one socket with one cache",
        }
    }
}

/// Returns the distance between two CPUs of the machine.
pub(super) fn distance(machine: &Machine, one: u32, other: u32) -> Distance {
    let package = |cpu| machine.cpu(cpu).and_then(|cpu| cpu.package);
    let cache = |cpu| machine.last_level_cache(cpu);
    if machine
        .cpu(one)
        .is_some_and(|cpu| cpu.siblings.contains(other))
    {
        Distance::Core
    } else if package(one) != package(other) {
        Distance::Remote
    } else if cache(one) == cache(other) {
        Distance::Cache
    } else {
        Distance::Socket
    }
}

/// Returns the idle states that the kernel reports for `cpu`, with `exit` for the state in which a sleep of `nap` ends.
/// The power comes from the states of `other`.
pub(super) fn idle_states(cpu: u32, exit: Picos, nap: Picos, other: &Profile) -> Vec<IdleState> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    // What is not said below is as in a state in which everything goes on.
    let awake = &other.idle[0];
    let mut states: Vec<IdleState> = (0..)
        .map_while(|number| known(&Path::new(&directory).join(format!("state{number}")), awake))
        .collect();
    states.sort_by_key(|state| state.believed_residency);
    let (shallow, deep) = (other.idle.first(), other.idle.last());
    let power = |state: Option<&IdleState>| state.map_or(0, |state| state.milliwatts);
    if states.is_empty() {
        return vec![IdleState {
            name: "park".to_owned(),
            believed_exit: exit,
            believed_residency: Picos::ZERO,
            polls_first: Picos::ZERO,
            exit,
            milliwatts: power(deep),
            deep: true,
            mark: Mark::A,
            source: format!(
                "the kernel names no idle states; exit: lateness of a worker that slept for {nap}, less device_fire; \
                 power of the deepest state of {}",
                other.name
            ),
            ..awake.clone()
        }];
    }
    let measured = states
        .iter()
        .rposition(|state| state.believed_residency <= nap);
    let last = states.len() - 1;
    for (place, state) in states.iter_mut().enumerate() {
        state.deep = place == last;
        state.milliwatts = power(if place == 0 && last > 0 {
            shallow
        } else {
            deep
        });
        let power = format!("power of {}", other.name);
        if Some(place) == measured {
            state.exit = exit;
            state.mark = Mark::A;
            state.source = format!(
                "cpuidle; exit: lateness of a worker that slept for {nap}, less device_fire; {power}"
            );
        } else {
            state.source = format!("cpuidle, exit as its driver believes, not measured; {power}");
        }
    }
    states
}

fn known(directory: &Path, awake: &IdleState) -> Option<IdleState> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let micros = |name: &str| Some(Picos::from_micros(text(name)?.trim().parse().ok()?));
    let latency = micros("latency")?;
    Some(IdleState {
        name: text("name")?.trim().to_owned(),
        believed_exit: latency,
        believed_residency: micros("residency")?,
        polls_first: Picos::ZERO,
        exit: latency,
        milliwatts: 0,
        deep: false,
        mark: Mark::C,
        source: String::new(),
        ..awake.clone()
    })
}
