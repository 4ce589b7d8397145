//! The check of the hierarchies: which CPU expires the timers of which other CPU, according to the state words and events.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Change, InTree, Step};
use super::findings::{COVERED, Findings, MIGRATOR};
use super::walks::Walks;
use crate::promise::covered::{self, Level};
use crate::promise::one_migrator;

#[derive(Clone, Debug, Default)]
struct Group {
    parent: Option<u32>,
    children: Vec<u32>,
    active: u16,
    /// The greatest number of a change of the state; `None` before the first.
    seq: Option<u64>,
    /// The number of the first change in the trace: those before it may be told after it.
    began: u64,
    /// The first time of its events; `None` before it was told.
    first: Option<i64>,
}

impl Group {
    /// Returns true if no child is active, as far as that is known.
    fn is_idle(&self) -> bool {
        self.seq.is_some() && self.active == 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    leaf: Option<u32>,
    is_available: bool,
    /// The time of its promise; `None` without a promise.
    wakeup: Option<i64>,
}

/// The most changes of a group that may be missing while a later one was reported: each of so many CPUs makes one.
const AHEAD_MAX: u64 = 4_096;

/// The hierarchies of the host, by their numbers. Most hosts have one.
#[derive(Debug, Default)]
pub(super) struct Trees(BTreeMap<u32, Tree>);

/// A hierarchy, as the events of the trace describe it.
#[derive(Debug, Default)]
struct Tree {
    walks: Walks,
    /// The groups that changed since the hierarchy was last checked.
    changed: BTreeSet<u32>,
    groups: Vec<Group>,
    nodes: BTreeMap<u32, Node>,
    /// The promises of the CPUs, the earliest first.
    promised: BTreeSet<(i64, u32)>,
    /// The changes, by group and number, that were passed over, and the lines that did so.
    missing: BTreeMap<(u32, u64), u64>,
}

impl Trees {
    /// Takes an event of a hierarchy. Returns false if the event is not known.
    pub(super) fn take(&mut self, of: &InTree, to: &mut Findings) -> Result<bool, String> {
        let tree = self.0.entry(of.tree).or_default();
        match of.step {
            Step::Group { group } => tree.make(group)?,
            Step::ConnectGroup { group, parent } => tree.connect_group(group, parent)?,
            Step::ConnectCpu { of_cpu, parent } => {
                tree.group(parent)?;
                tree.node(of_cpu).leaf = Some(parent);
            }
            Step::Available { of_cpu } => tree.node(of_cpu).is_available = true,
            Step::Unavailable { of_cpu } => tree.node(of_cpu).is_available = false,
            Step::Promise { of_cpu, wakeup } => tree.promises(of_cpu, wakeup),
            Step::Expiry { group, next_expiry } => {
                tree.group(group)?.first = Some(next_expiry.unwrap_or(i64::MAX));
                tree.changed.insert(group);
            }
            Step::SetActive(change) | Step::SetInactive(change) => tree.state(change, to)?,
            Step::Other => return Ok(false),
            _ => {}
        }
        if let Some(cpu) = to.cpu {
            tree.walks.take(&of.step, cpu);
        }
        Ok(true)
    }

    /// Takes another event of `cpu`.
    pub(super) fn does_something_else(&mut self, cpu: u32) {
        for tree in self.0.values_mut() {
            tree.walks.end(cpu);
        }
    }

    /// Checks what changed in the hierarchies in which no CPU is in the middle of a walk.
    pub(super) fn settle(&mut self, to: &mut Findings) {
        for tree in self.0.values_mut() {
            if !tree.changed.is_empty() && tree.walks.are_over() {
                tree.check_changed(to);
            }
        }
    }

    /// Returns true if no CPU is in the middle of a walk.
    pub(super) fn are_settled(&self) -> bool {
        self.0.values().all(|tree| tree.walks.are_over())
    }

    /// Checks, at the end of the trace, that each change that was missing was reported later.
    pub(super) fn end(&self, to: &mut Findings) {
        for tree in self.0.values() {
            for ((group, seq), line) in &tree.missing {
                let last = std::mem::replace(&mut to.line, *line);
                let what = format!("change {seq} of group {group} was lost: a later one is here");
                to.check(MIGRATOR, Some(what));
                to.line = last;
            }
        }
    }

    /// Describes the violation if `cpu` goes to sleep, another CPU may have to run its timer of `time`, and no CPU that is
    /// awake knows, or promised.
    pub(super) fn uncovered(&self, cpu: u32, time: i64) -> Option<String> {
        let takes_part = |tree: &&Tree| tree.nodes.get(&cpu).is_some_and(|node| node.is_available);
        let mut own = self.0.values().filter(takes_part).peekable();
        if own.peek().is_none() {
            return Some("it is not part of the hierarchy".to_owned());
        }
        let mut wrong = None;
        for tree in own {
            wrong = tree.uncovered(cpu, time);
            if wrong.is_none() {
                break;
            }
        }
        wrong
    }
}

impl Tree {
    fn node(&mut self, cpu: u32) -> &mut Node {
        self.nodes.entry(cpu).or_default()
    }

    fn group(&mut self, id: u32) -> Result<&mut Group, String> {
        let known = self.groups.len();
        let group = self.groups.get_mut(id as usize);
        group.ok_or_else(|| match known.checked_sub(1) {
            Some(last) => format!("there is no group {id}; the last one is {last}"),
            None => format!("there is no group {id}; none was told of before"),
        })
    }

    fn make(&mut self, id: u32) -> Result<(), String> {
        let next = self.groups.len();
        if id as usize != next {
            return Err(format!(
                "group {id} is not the next one; they come in order, and the next one is {next}"
            ));
        }
        self.groups.push(Group::default());
        Ok(())
    }

    fn connect_group(&mut self, id: u32, parent: u32) -> Result<(), String> {
        self.group(id)?;
        // A way up that comes back would have no end.
        let mut above = Some(parent);
        while let Some(one) = above {
            if one == id {
                return Err(format!(
                    "group {id} would be above itself; a group of a higher level is right"
                ));
            }
            above = self.group(one)?.parent;
        }
        match self.group(id)?.parent.replace(parent) {
            None => self.group(parent)?.children.push(id),
            Some(before) if before != parent => {
                return Err(format!(
                    "group {id} is below group {before} already; a group keeps its parent"
                ));
            }
            Some(_) => {}
        }
        self.changed.insert(id);
        Ok(())
    }

    fn promises(&mut self, cpu: u32, wakeup: Option<i64>) {
        let node = self.node(cpu);
        let leaf = node.leaf;
        if let Some(before) = std::mem::replace(&mut node.wakeup, wakeup) {
            self.promised.remove(&(before, cpu));
            let mut root = leaf;
            while let Some(above) = root.and_then(|id| self.groups[id as usize].parent) {
                root = Some(above);
            }
            self.changed.extend(root);
        }
        if let Some(wakeup) = wakeup {
            self.promised.insert((wakeup, cpu));
        }
    }

    fn state(&mut self, change: Change, to: &mut Findings) -> Result<(), String> {
        let Change {
            group: id,
            active,
            migrator,
            seq,
        } = change;
        let group = self.group(id)?;
        // A group is not locked while it changes, so a CPU may tell of its change after one that came later.
        let (began, before) = (group.began, group.seq);
        if before.is_none_or(|before| seq > before) {
            (group.active, group.seq) = (active, Some(seq));
        }
        let order = match before {
            None => {
                group.began = seq;
                None
            }
            Some(before) if seq <= before => {
                let may_be = seq < began || self.missing.remove(&(id, seq)).is_some();
                (!may_be)
                    .then(|| format!("change {seq} of group {id} was told already, up to {before}"))
            }
            Some(before) if seq - before - 1 > AHEAD_MAX => Some(format!(
                "change {seq} of group {id} follows {before}: one was lost"
            )),
            Some(before) => {
                let passed = (before + 1..seq).map(|passed| ((id, passed), to.line));
                self.missing.extend(passed);
                None
            }
        };
        if before.is_none_or(|before| seq > before) {
            self.changed.insert(id);
        }
        let wrong = one_migrator::wrong_migrator(id, active.into(), migrator.map(u32::from));
        to.check(MIGRATOR, wrong.or(order));
        Ok(())
    }

    /// Checks the groups that changed: what an idle group waits for, the group above it knows; and what the uppermost
    /// group waits for, a CPU has promised.
    fn check_changed(&mut self, to: &mut Findings) {
        let changed = std::mem::take(&mut self.changed);
        let below = |id: &u32| self.groups[*id as usize].children.iter().copied();
        let children: BTreeSet<u32> = changed.iter().flat_map(below).collect();
        for id in changed.union(&children) {
            let group = &self.groups[*id as usize];
            let waits = |first: &i64| group.is_idle() && *first != i64::MAX;
            let Some(first) = group.first.filter(waits) else {
                continue;
            };
            let wrong = match group.parent {
                None => covered::unpromised(&first, self.promised()),
                Some(parent) => match self.groups[parent as usize].first {
                    None => continue,
                    Some(above) => (above > first).then(|| format!("group {parent} was not told")),
                },
            };
            let wrong = wrong.map(|why| format!("idle group {id} waits for {first}: {why}"));
            to.check(COVERED, wrong);
        }
    }

    fn promised(&self) -> Option<i64> {
        self.promised.first().map(|(first, _)| *first)
    }

    fn uncovered(&self, cpu: u32, time: i64) -> Option<String> {
        let mut next = self.nodes.get(&cpu).and_then(|node| node.leaf);
        let levels = std::iter::from_fn(|| {
            let id = next?;
            let group = &self.groups[id as usize];
            next = group.parent;
            Some(Level {
                group: id,
                first: group.first,
                // Of a group without an event it is not known whether a CPU is awake.
                is_active: !group.is_idle(),
            })
        });
        covered::uncovered(levels, &time, self.promised())
    }
}
