//! The results of each CPU, and the groups of CPUs on which the same workloads may run.

use serde::Serialize;

use crate::model::time::Picos;
use crate::record::distribution::Distribution;
use crate::record::tally::{Tallies, Tally};
use crate::run::scenario::Scenario;

/// The results of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuOutcome {
    /// The number of the CPU.
    pub cpu: u32,
    /// The longest time for which interrupts kept a measuring task from running.
    pub longest_theft: Picos,
    /// The time that the CPU spent in each idle state.
    pub residency: Vec<Picos>,
}

/// The CPUs on which the same workloads may run, and their results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The CPUs of the group.
    pub cpus: Vec<u32>,
    /// True if the CPUs are isolated.
    pub isolated: bool,
    /// The workloads by their numbers in the scenario, from 0 on.
    pub workloads: Vec<usize>,
    /// The total counts of the CPUs.
    pub tally: Tally,
    /// The lateness of coarse timers that the CPUs fired.
    pub late_coarse: Distribution,
    /// The lateness of exact timers that the CPUs fired.
    pub late_exact: Distribution,
    /// The longest time for which interrupts kept a measuring task of these CPUs from running.
    pub longest_theft: Picos,
    /// The time that the CPUs spent in each idle state.
    pub residency: Vec<Picos>,
}

/// Adds up the results of the groups of `scenario`. Moves the distributions out of `tallies`.
pub(crate) fn groups(
    tallies: &mut Tallies,
    scenario: &Scenario,
    per_cpu: &[CpuOutcome],
) -> Vec<Group> {
    let late = tallies.take_late();
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
    for (cpu, (group, tally)) in per_cpu.iter().zip(tallies.of_cpus()) {
        let group = &mut groups[group as usize];
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

/// Returns whether `cpu` is isolated, and the workloads that may run on it.
fn kind(scenario: &Scenario, cpu: u32) -> (bool, Vec<usize>) {
    let isolated = scenario.isolated.get(cpu as usize) == Some(&true);
    let workloads = scenario.workloads.iter().enumerate();
    let workloads = workloads.filter(|(_, placed)| placed.cpus.binary_search(&cpu).is_ok());
    (isolated, workloads.map(|(index, _)| index).collect())
}

/// Returns the group of each CPU. Groups are numbered in the order of their first CPUs.
pub(crate) fn group_of(scenario: &Scenario) -> Vec<u32> {
    let mut kinds = std::collections::BTreeMap::new();
    let group = |cpu| {
        let next = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
        *kinds.entry(kind(scenario, cpu)).or_insert(next)
    };
    (0..scenario.cpus).map(group).collect()
}
