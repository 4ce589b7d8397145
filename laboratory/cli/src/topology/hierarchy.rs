//! The migration hierarchy that the library would build for the CPUs of a machine. The library's own code builds it, in
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Value, json};
use tickless::topology::{CpuSet, Topology};
use tickless_conformance::tables::{CpuTimers, PlainLock, Tables};
use tickless_core::hierarchy::{
    GroupId, Hierarchy, HierarchyHost, Layout, MigratorPolicy, NumaNode, Presence, WIDTH_DEFAULT,
};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;

use crate::failure::Failure;
use crate::units;

/// The CPUs for which a hierarchy is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// The CPUs that get a place in the hierarchy, each with its NUMA node if the node is known.
    cpus: BTreeMap<u32, Option<u32>>,
    /// The number of CPUs that may ever come online.
    possible: u32,
    /// The CPUs among `cpus` that are isolated.
    isolated: CpuSet,
}

impl Machine {
    /// Makes the machine from a topology that was read.
    pub(super) fn of(machine: &Topology) -> Self {
        let cpus = machine.cpus().iter();
        Self {
            cpus: cpus.map(|cpu| (cpu.number, cpu.node)).collect(),
            possible: u32::try_from(machine.possible().len()).unwrap_or(u32::MAX),
            isolated: machine.isolated().intersection(machine.online()),
        }
    }

    /// Makes a machine that need not exist: `cpus` CPUs in `nodes` blocks of equal size, or as equal as possible.
    pub(super) fn invented(cpus: u32, nodes: u32, isolated: CpuSet) -> Self {
        // Rounded down: CPU numbers rise with their nodes.
        let node = |cpu: u32| u64::from(cpu) * u64::from(nodes) / u64::from(cpus);
        let node = |cpu| u32::try_from(node(cpu)).ok();
        Self {
            cpus: (0..cpus).map(|cpu| (cpu, node(cpu))).collect(),
            possible: cpus,
            isolated,
        }
    }

    /// Returns the layout for all CPUs that may ever come online. The node with the most CPUs decides the height.
    fn layout(&self) -> Layout {
        let mut of_node = BTreeMap::<Option<u32>, u32>::new();
        for node in self.cpus.values() {
            *of_node.entry(*node).or_default() += 1;
        }
        let nodes = u32::try_from(of_node.len()).unwrap_or(u32::MAX).max(1);
        let fullest = of_node.values().copied().max().unwrap_or(1);
        let fullest = fullest.max(self.possible.div_ceil(nodes));
        Layout::new(fullest.saturating_mul(nodes), nodes, WIDTH_DEFAULT)
    }
}

/// The timers of CPUs that have none: the hierarchy is only built.
#[derive(Debug)]
struct NoTimers;

impl CpuTimers for NoTimers {
    type Lock = PlainLock;
    type LockedBases<'a> = ();

    fn expire_global(&self, _cpu: CpuId, _now: Instant, _budget: &mut u32) {}

    fn lock_bases(&self, _cpu: CpuId) -> ((), Instant) {
        ((), Instant::FOREVER)
    }

    fn activate(&self, _cpu: CpuId) {}
}

/// A group of the hierarchy that was built.
#[derive(Debug)]
struct Branch {
    level: usize,
    parent: Option<u32>,
    slot: u8,
    nodes: BTreeSet<Option<u32>>,
    /// The CPUs below the group that take part in the hierarchy.
    cpus: CpuSet,
    /// The CPUs below the group that have a place in the hierarchy and take no part.
    kept: CpuSet,
    groups: Vec<u32>,
}

/// The hierarchy, ready to be drawn.
#[derive(Debug)]
pub(super) struct Drawing {
    branches: Vec<Branch>,
    root: u32,
    height: usize,
    layout: Layout,
    has_nodes: bool,
    isolated: CpuSet,
}

impl Drawing {
    /// Builds the hierarchy of `machine`. The CPUs are added in the order of their numbers.
    pub(super) fn of(machine: &Machine) -> Result<Self, Failure> {
        let layout = machine.layout();
        let highest = machine.cpus.last_key_value().map_or(0, |(cpu, _)| *cpu);
        let sites = Tables::<_, WIDTH_DEFAULT>::with_timers(NoTimers, highest + 1, layout);
        let tree = Hierarchy::new(sites, layout, MigratorPolicy::default());
        let wrong = |cpu: u32, why: &dyn std::fmt::Display| {
            Failure::Input(format!("CPU {cpu} finds no place in the hierarchy: {why}"))
        };
        for (&cpu, node) in &machine.cpus {
            // CPUs that do not tell are together on a node that does not exist.
            let numa = NumaNode(node.unwrap_or(u32::MAX));
            tree.prepare(CpuId(cpu), numa)
                .map_err(|error| wrong(cpu, &error))?;
            if !machine.isolated.contains(cpu) {
                tree.set_available(CpuId(cpu), Presence::Awake)
                    .map_err(|error| wrong(cpu, &error))?;
            }
        }
        tree.check()
            .map_err(|rule| Failure::Input(format!("the hierarchy breaks its rules: {rule:?}")))?;
        let root = tree
            .root()
            .ok_or_else(|| Failure::Input("there is no CPU to build a hierarchy of".to_owned()))?;
        Ok(Self {
            branches: branches(&tree, machine),
            root: root.0,
            height: tree.height(),
            layout,
            has_nodes: machine.cpus.values().any(Option::is_some),
            isolated: machine.isolated.clone(),
        })
    }

    /// Formats the hierarchy as a tree of lines.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            out,
            "hierarchy         {} of at most {}, groups of up to {WIDTH_DEFAULT}, {}",
            units::counted(self.height as u64, "level"),
            self.layout.levels(),
            self.crossing().map_or_else(
                || "one node".to_owned(),
                |level| format!("nodes mix from level {level} on")
            ),
        );
        self.draw(self.root, "", "", &mut out);
        if !self.isolated.is_empty() {
            let taking_part = &self.branches[self.root as usize].cpus;
            let _infallible = writeln!(
                out,
                "left out          {}: isolated, neither pulls nor is pulled{}",
                self.isolated,
                if taking_part.is_empty() {
                    "; no CPU is left to pull"
                } else {
                    ""
                }
            );
        }
        out
    }

    /// Returns the lowest level at which a group may have CPUs of several nodes; `None` if the machine has one node.
    fn crossing(&self) -> Option<usize> {
        let cross = self.layout.cross_node_level();
        let mixes = self.branches[self.root as usize].nodes.len() > 1;
        mixes.then_some(cross)
    }

    fn draw(&self, group: u32, branch: &str, below: &str, out: &mut String) {
        let here = &self.branches[group as usize];
        let _infallible = write!(out, "{branch}group {group}, level {}", here.level);
        if self.has_nodes {
            let word = if here.nodes.len() == 1 {
                "node"
            } else {
                "nodes"
            };
            let _infallible = write!(out, ", {word} {}", node_list(&here.nodes));
        }
        let _infallible = write!(out, ": CPUs {}", super::list_or_none(&here.cpus));
        if !here.kept.is_empty() && here.groups.is_empty() {
            let _infallible = write!(out, " (places kept for {})", here.kept);
        }
        out.push('\n');
        for (index, child) in here.groups.iter().enumerate() {
            let is_last = index + 1 == here.groups.len();
            let (own, rest) = if is_last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            let branch = format!("{below}{own}");
            self.draw(*child, &branch, &format!("{below}{rest}"), out);
        }
    }

    /// Returns the hierarchy as data for JSON.
    pub(super) fn document(&self) -> Value {
        let groups = self.branches.iter().enumerate().map(|(id, branch)| {
            json!({
                "group": id,
                "level": branch.level,
                "parent": branch.parent,
                "slot": branch.parent.map(|_| branch.slot),
                "nodes": branch.nodes.iter().flatten().collect::<Vec<_>>(),
                "cpus": branch.cpus.to_string(),
                "kept": branch.kept.to_string(),
            })
        });
        let left_out = (!self.isolated.is_empty())
            .then(|| json!({"cpus": self.isolated.to_string(), "why": "isolated"}));
        json!({
            "width": WIDTH_DEFAULT,
            "levels": self.height,
            "levels_max": self.layout.levels(),
            "cross_node_level": self.crossing(),
            "root": self.root,
            "groups": groups.collect::<Vec<_>>(),
            "left_out": left_out.into_iter().collect::<Vec<_>>(),
        })
    }
}

/// Reads the groups of a built hierarchy, in the order of their numbers.
fn branches(tree: &Hierarchy<Tables<NoTimers>>, machine: &Machine) -> Vec<Branch> {
    let mut branches: Vec<Branch> = (0..tree.groups())
        .map(|id| {
            let group = tree.host().group(GroupId(id));
            Branch {
                level: group.level(),
                parent: group.parent().map(|parent| parent.0),
                slot: group.slot().number(),
                nodes: BTreeSet::new(),
                cpus: CpuSet::new(),
                kept: CpuSet::new(),
                groups: Vec::new(),
            }
        })
        .collect();
    for (&cpu, numa_node) in &machine.cpus {
        let node = tree.host().node(CpuId(cpu));
        let takes_part = node.is_some_and(|node| node.is_available());
        let mut next = node.and_then(|node| node.leaf()).map(|leaf| leaf.0);
        while let Some(id) = next {
            let branch = &mut branches[id as usize];
            branch.nodes.insert(*numa_node);
            if takes_part {
                branch.cpus.insert(cpu);
            } else {
                branch.kept.insert(cpu);
            }
            next = branch.parent;
        }
    }
    for id in 0..branches.len() {
        if let Some(parent) = branches[id].parent {
            let number = u32::try_from(id).unwrap_or(u32::MAX);
            branches[parent as usize].groups.push(number);
        }
    }
    // As the hierarchy counts its children: the place of an old root is the first, though others came before it.
    for id in 0..branches.len() {
        let mut groups = std::mem::take(&mut branches[id].groups);
        groups.sort_by_key(|group| branches[*group as usize].slot);
        branches[id].groups = groups;
    }
    branches
}

/// Formats node numbers as ranges, `0-3 and 5`; a dash stands for CPUs without a known node.
fn node_list(nodes: &BTreeSet<Option<u32>>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &node in nodes.iter().flatten() {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(node) => *last = node,
            _ => ranges.push((node, node)),
        }
    }
    let unknown = nodes.contains(&None).then(|| super::or_dash(None::<u32>));
    let ranges = ranges.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    ranges.chain(unknown).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use tickless::topology::CpuSet;

    use super::{Drawing, Machine, node_list};

    fn drawn(cpus: u32, nodes: u32, isolated: &str) -> String {
        let isolated = if isolated.is_empty() {
            CpuSet::new()
        } else {
            isolated.parse().unwrap()
        };
        Drawing::of(&Machine::invented(cpus, nodes, isolated))
            .unwrap()
            .text()
    }

    #[test]
    fn one_group_is_enough_for_few_cpus() {
        assert_eq!(
            drawn(4, 1, ""),
            "hierarchy         1 level of at most 1, groups of up to 8, one node\n\
             group 0, level 0, node 0: CPUs 0-3\n"
        );
    }

    #[test]
    fn nodes_meet_at_the_top() {
        assert_eq!(
            drawn(20, 2, "3,12-13"),
            "hierarchy         3 levels of at most 3, groups of up to 8, nodes mix from level 2 on\n\
             group 5, level 2, nodes 0-1: CPUs 0-2,4-11,14-19\n\
             ├─ group 2, level 1, node 0: CPUs 0-2,4-9\n\
             │  ├─ group 0, level 0, node 0: CPUs 0-2,4-7 (places kept for 3)\n\
             │  └─ group 1, level 0, node 0: CPUs 8-9\n\
             └─ group 4, level 1, node 1: CPUs 10-11,14-19\n   \
             ├─ group 3, level 0, node 1: CPUs 10-11,14-17 (places kept for 12-13)\n   \
             └─ group 6, level 0, node 1: CPUs 18-19\n\
             left out          3,12-13: isolated, neither pulls nor is pulled\n"
        );
    }

    #[test]
    fn a_machine_of_isolated_cpus_has_no_cpu_that_pulls() {
        let text = drawn(2, 1, "0-1");
        assert!(text.contains("CPUs none (places kept for 0-1)\n"), "{text}");
        assert!(text.ends_with("; no CPU is left to pull\n"), "{text}");
    }

    #[test]
    fn nodes_are_listed_as_ranges() {
        let list = |nodes: &[Option<u32>]| node_list(&nodes.iter().copied().collect());
        assert_eq!(list(&[Some(0)]), "0");
        assert_eq!(
            list(&[Some(0), Some(1), Some(2), Some(5), None]),
            "0-2 and 5 and -"
        );
        assert_eq!(list(&[Some(u32::MAX)]), "4294967295");
    }

    #[test]
    fn every_small_machine_can_be_drawn() {
        for cpus in 1..=80 {
            for nodes in 1..=cpus.min(9) {
                let machine = Machine::invented(cpus, nodes, CpuSet::new());
                let drawing = Drawing::of(&machine).expect("it fits");
                let root = &drawing.branches[drawing.root as usize];
                assert_eq!(root.cpus.len(), cpus as usize);
                assert_eq!(root.nodes.len(), nodes as usize);
            }
        }
    }
}
