//! The plan of a run, with every default computed.

use std::path::PathBuf;
use std::time::Duration;

use tickless::topology::{CpuSet, Topology};

use super::Arguments;
use crate::failure::Failure;
use crate::latency::subject::Subject;
use crate::output::{Options, Place};
use crate::scheduling::Policy;

/// The settings of a run, with every default computed.
#[derive(Clone, Debug)]
pub(in crate::latency) struct Plan {
    pub(in crate::latency) threads: Vec<Placement>,
    pub(in crate::latency) policy: Policy,
    pub(in crate::latency) subjects: Vec<Subject>,
    pub(in crate::latency) duration: Option<Duration>,
    pub(in crate::latency) loops: Option<u64>,
    pub(in crate::latency) relative: bool,
    pub(in crate::latency) limit: Option<Duration>,
    /// The number of buckets, of a microsecond each; 0 for no histogram.
    pub(in crate::latency) buckets: usize,
    pub(in crate::latency) histogram_of_all: bool,
    pub(in crate::latency) histogram_file: Option<Place>,
    pub(in crate::latency) power_management: Option<u32>,
    pub(in crate::latency) lock_memory: bool,
    pub(in crate::latency) refresh_on_max: bool,
    pub(in crate::latency) in_nanos: bool,
    pub(in crate::latency) main_cpus: Option<CpuSet>,
    pub(in crate::latency) align: Option<Align>,
    /// The number of latencies of which the largest is printed; 1 prints every latency, `None` none.
    pub(in crate::latency) verbose: Option<u64>,
    pub(in crate::latency) spikes: Option<Spikes>,
    /// The directory of the kernel's tracing, which a latency above the limit marks and stops.
    pub(in crate::latency) tracefs: Option<PathBuf>,
}

/// The alignment of the threads' deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::latency) struct Align {
    pub(in crate::latency) to_second: bool,
    /// The offset of each thread's deadline from the deadline of the thread before.
    pub(in crate::latency) offset: Duration,
}

/// The latencies that are listed one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::latency) struct Spikes {
    pub(in crate::latency) above: Duration,
    pub(in crate::latency) most: usize,
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
        self.elsewhere.refuse()?;
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
        let buckets = self.histogram.or(self.histofall).unwrap_or(0);
        if self.histfile.is_some() && buckets == 0 {
            return Err(Failure::Input(
                "--histfile needs a histogram: add -h USEC, its longest latency".to_owned(),
            ));
        }
        Ok(Plan {
            threads: self.places(buckets > 0, priority)?,
            policy,
            subjects,
            duration: self.duration.filter(|duration| !duration.is_zero()),
            loops: (self.loops > 0).then_some(self.loops),
            relative: self.relative,
            limit: self
                .breaktrace
                .filter(|micros| *micros > 0)
                .map(Duration::from_micros),
            buckets: usize::try_from(buckets).unwrap_or(usize::MAX),
            histogram_of_all: self.histofall.is_some(),
            histogram_file: self.histfile.clone().map(Place::File),
            power_management: (!self.default_system).then_some(self.latency),
            lock_memory: self.mlockall,
            refresh_on_max: self.refresh_on_max,
            in_nanos: self.nsecs,
            main_cpus: self.main_cpus()?,
            align: self.align(),
            verbose: self.verbose.then_some(self.oscope.unwrap_or(1)),
            spikes: self.spike.map(|micros| Spikes {
                above: Duration::from_micros(micros),
                most: usize::try_from(self.spike_nodes).unwrap_or(usize::MAX),
            }),
            tracefs: self.tracemark.then(|| self.tracefs.clone()),
        })
    }

    fn align(&self) -> Option<Align> {
        let micros = self.aligned.or(self.secaligned)?;
        Some(Align {
            to_second: self.secaligned.is_some(),
            offset: Duration::from_micros(micros),
        })
    }

    fn main_cpus(&self) -> Result<Option<CpuSet>, Failure> {
        let Some(list) = &self.mainaffinity else {
            return Ok(None);
        };
        let machine = Topology::read().map_err(|error| Failure::Machine(error.to_string()))?;
        cpu_list(list, machine.online(), &usable(&machine), "--mainaffinity").map(Some)
    }

    /// Returns the policy, and the priority of the first thread.
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

    /// Returns cyclictest's remark about a priority that it chose itself.
    pub(in crate::latency) fn remark(&self) -> Option<String> {
        let (policy, priority) = self.scheduling().ok()?;
        let is_own = policy.is_real_time() && self.priority.unwrap_or(0) == 0;
        is_own.then(|| format!("defaulting realtime priority to {priority}"))
    }

    fn places(&self, with_histogram: bool, first: u8) -> Result<Vec<Placement>, Failure> {
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
        let spread = u32::from(self.priospread && !with_histogram);
        Ok((0..threads)
            .map(|number| {
                let lower = u8::try_from(number * spread).unwrap_or(u8::MAX);
                Placement {
                    cpu: nth(&cpus, number),
                    priority: first.saturating_sub(lower).max(first.min(1)),
                    interval: interval + Duration::from_micros(distance) * number,
                }
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
        Ok(
            cpu_list(list, machine.online(), &usable(machine), "--affinity")?
                .iter()
                .collect(),
        )
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
pub(super) fn cpu_list(
    list: &str,
    online: &CpuSet,
    usable: &CpuSet,
    option: &str,
) -> Result<CpuSet, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::Input(format!("{option}: {why}"));
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
