//! What each CPU did, and which CPUs belong together: those on which the same workloads may run.

use serde::Serialize;

use crate::model::time::Picos;
use crate::record::distribution::Distribution;
use crate::run::outcome::CpuOutcome;
use crate::run::scenario::Scenario;

/// What a CPU, or several, did how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// Timers that it started, moved or cancelled, with a lock.
    pub operations: u64,
    /// Timers that it fired, those of others included.
    pub fires: u64,
    /// Coarse timers of others that it fired.
    pub remote_fires: u64,
    /// Its coarse timers that others fired.
    pub fired_by_others: u64,
    /// Timer interrupts.
    pub interrupts: u64,
    /// Writes to its event device.
    pub device_writes: u64,
    /// Inter-processor interrupts that it was sent.
    pub ipis: u64,
    /// Times that it was woken from an idle state.
    pub wakes: u64,
}

impl Tally {
    const fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.fires += other.fires;
        self.remote_fires += other.remote_fires;
        self.fired_by_others += other.fired_by_others;
        self.interrupts += other.interrupts;
        self.device_writes += other.device_writes;
        self.ipis += other.ipis;
        self.wakes += other.wakes;
    }
}

/// CPUs on which the same workloads may run, and what they did together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// Which CPUs.
    pub cpus: Vec<u32>,
    /// Whether they are isolated.
    pub isolated: bool,
    /// The workloads, as the scenario numbers them, from 0 on.
    pub workloads: Vec<usize>,
    /// What they did.
    pub tally: Tally,
    /// How late coarse timers were that they fired.
    pub late_coarse: Distribution,
    /// How late exact timers were that they fired.
    pub late_exact: Distribution,
    /// The longest time for which interrupts kept a task of theirs from running that measures it.
    pub longest_theft: Picos,
    /// How long they were in each idle state.
    pub residency: Vec<Picos>,
}

/// Counts what each CPU does.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    cpus: Vec<Tally>,
    group_of: Vec<u32>,
    late: Vec<[Distribution; 2]>,
}

impl Tallies {
    /// For CPUs that belong to these groups.
    pub(crate) fn new(group_of: &[u32]) -> Self {
        let groups = group_of.iter().max().map_or(0, |last| *last as usize + 1);
        Self {
            cpus: vec![Tally::default(); group_of.len()],
            group_of: group_of.to_vec(),
            late: vec![Default::default(); groups],
        }
    }

    /// Counts something of `cpu`, if that is one.
    #[inline]
    pub(crate) fn count(&mut self, cpu: u32, what: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.cpus.get_mut(cpu as usize) {
            what(tally);
        }
    }

    fn late_of(&mut self, cpu: u32, kind: usize) -> Option<&mut Distribution> {
        let group = *self.group_of.get(cpu as usize)?;
        self.late.get_mut(group as usize)?.get_mut(kind)
    }

    /// `cpu` fired a coarse timer of `owner`.
    pub(crate) fn coarse(&mut self, cpu: u32, owner: u32, late: Picos) {
        self.count(cpu, |tally| {
            tally.fires += 1;
            tally.remote_fires += u64::from(owner != cpu);
        });
        self.count(owner, |tally| {
            tally.fired_by_others += u64::from(owner != cpu);
        });
        if let Some(times) = self.late_of(cpu, 0) {
            times.note(late);
        }
    }

    /// `cpu` fired an exact timer.
    pub(crate) fn exact(&mut self, cpu: u32, late: Picos) {
        self.count(cpu, |tally| tally.fires += 1);
        if let Some(times) = self.late_of(cpu, 1) {
            times.note(late);
        }
    }

    /// What the groups did together.
    pub(crate) fn groups(&mut self, scenario: &Scenario, per_cpu: &[CpuOutcome]) -> Vec<Group> {
        let late = std::mem::take(&mut self.late);
        let mut groups: Vec<Group> = late
            .into_iter()
            .map(|[late_coarse, late_exact]| Group {
                cpus: Vec::new(),
                isolated: false,
                workloads: Vec::new(),
                tally: Tally::default(),
                late_coarse,
                late_exact,
                longest_theft: Picos::ZERO,
                residency: Vec::new(),
            })
            .collect();
        for ((cpu, group), tally) in per_cpu.iter().zip(&self.group_of).zip(&self.cpus) {
            let group = &mut groups[*group as usize];
            if group.cpus.is_empty() {
                let (isolated, workloads) = kind(scenario, cpu.cpu);
                group.isolated = isolated;
                group.workloads = workloads;
                group.residency = vec![Picos::ZERO; cpu.residency.len()];
            }
            group.cpus.push(cpu.cpu);
            group.tally.add(tally);
            group.longest_theft = group.longest_theft.max(cpu.longest_theft);
            for (sum, time) in group.residency.iter_mut().zip(&cpu.residency) {
                *sum += *time;
            }
        }
        groups
    }
}

/// Whether `cpu` is isolated, and the workloads that may run on it.
fn kind(scenario: &Scenario, cpu: u32) -> (bool, Vec<usize>) {
    let isolated = scenario.isolated.get(cpu as usize) == Some(&true);
    let workloads = scenario.workloads.iter().enumerate();
    let workloads = workloads.filter(|(_, placed)| placed.cpus.binary_search(&cpu).is_ok());
    (isolated, workloads.map(|(index, _)| index).collect())
}

/// The group of each CPU, numbered in the order of their first CPUs.
pub(crate) fn group_of(scenario: &Scenario) -> Vec<u32> {
    let mut kinds = std::collections::BTreeMap::new();
    let group = |cpu| {
        let next = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
        *kinds.entry(kind(scenario, cpu)).or_insert(next)
    };
    (0..scenario.cpus).map(group).collect()
}
