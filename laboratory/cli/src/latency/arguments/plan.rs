//! The plan of a run, with every default computed.

use std::time::Duration;

use tickless::topology::{CpuSet, Topology};

use super::Arguments;
use crate::failure::Failure;
use crate::latency::subject::Subject;
use crate::output::Options;
use crate::scheduling::Policy;

/// The settings of a run, with every default computed.
#[derive(Clone, Debug)]
pub(in crate::latency) struct Plan {
    pub(in crate::latency) threads: Vec<Placement>,
    pub(in crate::latency) policy: Policy,
    pub(in crate::latency) subjects: Vec<Subject>,
    pub(in crate::latency) duration: Option<Duration>,
    pub(in crate::latency) loops: Option<u64>,
    pub(in crate::latency) limit: Option<Duration>,
    /// The number of buckets, of a microsecond each; 0 for no histogram.
    pub(in crate::latency) buckets: usize,
    pub(in crate::latency) limits_idle_states: bool,
    pub(in crate::latency) lock_memory: bool,
    pub(in crate::latency) in_nanos: bool,
}

/// The default priority of a real-time policy, as in cyclictest.
const PRIORITY: u8 = 2;

/// The CPU and the scheduling policy of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::latency) struct Placement {
    pub(in crate::latency) cpu: Option<u32>,
    pub(in crate::latency) priority: u8,
    pub(in crate::latency) interval: Duration,
}

impl Arguments {
    /// Returns the options that all commands have; `-q` has another meaning here.
    pub(in crate::latency) fn output(&self) -> Options {
        Options {
            json: self.json.clone(),
            quiet: false,
        }
    }

    /// Computes every default, and refuses settings that are impossible.
    pub(in crate::latency) fn settle(&self) -> Result<Plan, Failure> {
        let (policy, priority) = self.scheduling()?;
        let mut subjects = vec![self.timer];
        for &subject in &self.against {
            if subjects.contains(&subject) {
                let name = subject.name();
                return Err(Failure::Input(format!(
                    "{name} is measured twice; name each way to wait once in --timer and --against"
                )));
            }
            subjects.push(subject);
        }
        let buckets = self.histogram.unwrap_or(0);
        Ok(Plan {
            threads: self.places(buckets > 0, priority)?,
            policy,
            subjects,
            duration: self.duration.filter(|duration| !duration.is_zero()),
            loops: (self.loops > 0).then_some(self.loops),
            limit: self
                .breaktrace
                .filter(|micros| *micros > 0)
                .map(Duration::from_micros),
            buckets: usize::try_from(buckets).unwrap_or(usize::MAX),
            limits_idle_states: !self.default_system,
            lock_memory: self.mlockall,
            in_nanos: self.nsecs,
        })
    }

    /// Returns the policy, and the priority of the threads.
    fn scheduling(&self) -> Result<(Policy, u8), Failure> {
        let policy = match (self.policy, self.priority) {
            (None, None) => Policy::Other,
            (None, Some(_)) => Policy::Fifo,
            (Some(policy), Some(1..)) if !policy.is_real_time() => {
                return Err(Failure::Input(format!(
                    "the policy {} has no priorities; use --policy fifo or rr, or leave out -p",
                    policy.name()
                )));
            }
            (Some(policy), _) => policy,
        };
        Ok(match self.priority.unwrap_or(0) {
            0 if policy.is_real_time() => (policy, PRIORITY),
            priority => (policy, priority),
        })
    }

    fn places(&self, with_histogram: bool, priority: u8) -> Result<Vec<Placement>, Failure> {
        let machine = Topology::read().map_err(|error| Failure::Machine(error.to_string()))?;
        let usable = usable(&machine);
        let all = u32::try_from(usable.len()).unwrap_or(u32::MAX);
        let threads = match self.threads {
            None if self.smp => all,
            None => 1,
            Some(0) => all,
            Some(threads) => threads,
        };
        let cpus = self.cpus(&machine)?;
        let interval = Duration::from_micros(self.interval);
        let distance = self
            .distance
            .unwrap_or(if with_histogram { 0 } else { 500 });
        Ok((0..threads)
            .map(|number| Placement {
                cpu: nth(&cpus, number),
                priority,
                interval: interval + Duration::from_micros(distance) * number,
            })
            .collect())
    }

    /// Returns the CPUs to which threads are pinned; none if threads are not pinned.
    fn cpus(&self, machine: &Topology) -> Result<Vec<u32>, Failure> {
        let list = match &self.affinity {
            None if !self.smp => return Ok(Vec::new()),
            None => "",
            Some(list) => list.as_str(),
        };
        if list.is_empty() {
            return Ok(usable(machine).iter().collect());
        }
        Ok(cpu_list(list, machine.online(), &usable(machine))?
            .iter()
            .collect())
    }
}

/// Returns the CPUs on which the process may run.
fn usable(machine: &Topology) -> CpuSet {
    let allowed = machine.allowed().unwrap_or(machine.online());
    allowed.intersection(machine.online())
}

/// Returns the CPUs of a list; after a `!`, all other CPUs on which the process may run, as in cyclictest.
///
/// A list may name CPUs on which the process does not run by default, for example isolated ones: a thread may be pinned
/// there all the same. Where a control group forbids the CPU, the kernel refuses.
pub(super) fn cpu_list(list: &str, online: &CpuSet, usable: &CpuSet) -> Result<CpuSet, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::Input(format!("--affinity: {why}"));
    let named = |list: &str| CpuSet::parse_within(list, online).map_err(|error| wrong(&error));
    let Some(left_out) = list.strip_prefix('!') else {
        return named(list);
    };
    let others = usable.difference(&named(left_out)?);
    if others.is_empty() {
        return Err(wrong(&format!("{list:?} leaves no CPU of {usable}")));
    }
    Ok(others)
}

/// Returns the CPU of a thread, when threads are assigned to CPUs in rotation.
pub(super) fn nth(cpus: &[u32], number: u32) -> Option<u32> {
    let number = usize::try_from(number).unwrap_or(0);
    let place = number.checked_rem(cpus.len())?;
    cpus.get(place).copied()
}
