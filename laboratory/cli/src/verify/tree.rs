//! The check of the hierarchy: which CPU expires the timers of which other CPU, according to the state words and
//! events.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Findings;
use super::read::{Header, Line};
use super::walks::{Promise, Walks};
use super::{COVERED, MIGRATOR};
use crate::failure::Failure;

#[derive(Clone, Debug)]
struct Group {
    parent: Option<u32>,
    children: Vec<u32>,
    active: u16,
    migrator: Option<u16>,
    /// The greatest number of a change of the state; `None` before the first.
    seq: Option<u64>,
    /// The number of the first change in the trace: those before it may be told behind it.
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
#[derive(Debug)]
pub(super) struct Trees {
    cpus: u32,
    trees: BTreeMap<u32, Tree>,
}

/// A hierarchy, as the events of the trace describe it.
#[derive(Debug)]
struct Tree {
    cpus: u32,
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
    pub(super) fn new(header: &Header) -> Self {
        let cpus = header.cpus;
        Self {
            cpus,
            trees: BTreeMap::from([(0, Tree::new(cpus))]),
        }
    }

    /// Takes an event of a hierarchy on `cpu`. Returns false if there is no such event.
    pub(super) fn take(
        &mut self,
        event: &str,
        line: &Line,
        cpu: Option<u32>,
        to: &mut Findings,
    ) -> Result<bool, Failure> {
        let number = if line.keys.contains_key("tree") {
            line.number("tree", "hierarchy", u32::MAX)?
        } else {
            0
        };
        let cpus = self.cpus;
        let tree = self.trees.entry(number).or_insert_with(|| Tree::new(cpus));
        let mut promise = None;
        match event {
            "tmigr_group_set" => tree.make(line)?,
            "tmigr_connect_child_parent" => tree.connect_group(line)?,
            "tmigr_connect_cpu_parent" => tree.connect_cpu(line)?,
            "tmigr_cpu_available" => tree.available(line, true)?,
            "tmigr_cpu_unavailable" => tree.available(line, false)?,
            "tmigr_cpu_wakeup" => promise = Some(tree.promises(line)?),
            "tmigr_group_expiry" | "tmigr_update_events" => tree.expiry(line)?,
            "tmigr_group_set_cpu_active" | "tmigr_group_set_cpu_inactive" => {
                tree.state(line, to)?;
            }
            "tmigr_cpu_active"
            | "tmigr_cpu_idle"
            | "tmigr_cpu_new_timer_idle"
            | "tmigr_handle_remote_cpu"
            | "tmigr_handle_remote_cpu_done" => {}
            _ => return Ok(false),
        }
        if let Some(cpu) = cpu {
            tree.walks.take(event, cpu, promise);
        }
        Ok(true)
    }

    /// Takes another event of `cpu`.
    pub(super) fn does_something_else(&mut self, cpu: u32) {
        for tree in self.trees.values_mut() {
            tree.walks.end(cpu);
        }
    }

    /// Checks what changed in the hierarchies in which no CPU is in the middle of a walk.
    pub(super) fn settle(&mut self, to: &mut Findings) {
        for tree in self.trees.values_mut() {
            if !tree.changed.is_empty() && tree.walks.are_over() {
                tree.check_changed(to);
            }
        }
    }

    /// Returns true if no CPU is in the middle of a walk.
    pub(super) fn are_settled(&self) -> bool {
        self.trees.values().all(|tree| tree.walks.are_over())
    }

    /// Checks, at the end of the trace, that each change that was missing was reported later.
    pub(super) fn end(&self, to: &mut Findings) {
        for tree in self.trees.values() {
            tree.end(to);
        }
    }

    /// `cpu` goes to sleep, and another may have to run its timer of `time`: a CPU that is awake knows, or promised.
    pub(super) fn is_covered(&self, cpu: u32, time: i64) -> Result<(), String> {
        let own = self.trees.values().filter(|tree| tree.takes_part(cpu));
        let nowhere = Err("it is not part of the hierarchy".to_owned());
        own.fold(nowhere, |covered, tree| {
            covered.or_else(|_| tree.is_covered(cpu, time))
        })
    }
}

impl Tree {
    fn new(cpus: u32) -> Self {
        Self {
            cpus,
            walks: Walks::default(),
            changed: BTreeSet::new(),
            groups: Vec::new(),
            nodes: BTreeMap::new(),
            promised: BTreeSet::new(),
            missing: BTreeMap::new(),
        }
    }

    fn cpu(&self, line: &Line) -> Result<u32, Failure> {
        line.number("of_cpu", "CPU", self.cpus)
    }

    fn node(&mut self, cpu: u32) -> &mut Node {
        self.nodes.entry(cpu).or_default()
    }

    fn takes_part(&self, cpu: u32) -> bool {
        self.nodes.get(&cpu).is_some_and(|node| node.is_available)
    }

    fn group(&self, line: &Line, key: &str) -> Result<u32, Failure> {
        line.number(
            key,
            "group",
            u32::try_from(self.groups.len()).unwrap_or(u32::MAX),
        )
    }

    /// `tmigr_group_set`: a group was made.
    fn make(&mut self, line: &Line) -> Result<(), Failure> {
        let id = line.whole("group")?;
        if id != self.groups.len() as u64 {
            let what = format!("group {id} is not the next one");
            let right = format!(
                "they come in order, and the next one is {}",
                self.groups.len()
            );
            return Err(line.wrong("group", &what, &right));
        }
        self.groups.push(Group {
            parent: None,
            children: Vec::new(),
            active: 0,
            migrator: None,
            seq: None,
            began: 0,
            first: None,
        });
        Ok(())
    }

    /// `tmigr_connect_child_parent`.
    fn connect_group(&mut self, line: &Line) -> Result<(), Failure> {
        let (group, parent) = (self.group(line, "group")?, self.group(line, "parent")?);
        // A way up that comes back would have no end.
        let mut above = Some(parent);
        while let Some(id) = above {
            if id == group {
                let what = format!("group {group} would be above itself");
                return Err(line.wrong("parent", &what, "a group of a higher level is"));
            }
            above = self.groups[id as usize].parent;
        }
        match self.groups[group as usize].parent.replace(parent) {
            None => self.groups[parent as usize].children.push(group),
            Some(before) if before != parent => {
                let what = format!("group {group} is below group {before} already");
                return Err(line.wrong("parent", &what, "a group keeps its parent"));
            }
            Some(_) => {}
        }
        self.changed.insert(group);
        Ok(())
    }

    /// `tmigr_connect_cpu_parent`.
    fn connect_cpu(&mut self, line: &Line) -> Result<(), Failure> {
        let (cpu, leaf) = (self.cpu(line)?, self.group(line, "parent")?);
        self.node(cpu).leaf = Some(leaf);
        Ok(())
    }

    /// `tmigr_cpu_available` and `tmigr_cpu_unavailable`.
    fn available(&mut self, line: &Line, is_available: bool) -> Result<(), Failure> {
        let cpu = self.cpu(line)?;
        self.node(cpu).is_available = is_available;
        Ok(())
    }

    /// `tmigr_cpu_wakeup`.
    fn promises(&mut self, line: &Line) -> Result<Promise, Failure> {
        let (cpu, wakeup) = (self.cpu(line)?, line.time_or_never("wakeup")?);
        let wakeup = (wakeup != i64::MAX).then_some(wakeup);
        let node = self.node(cpu);
        let before = std::mem::replace(&mut node.wakeup, wakeup);
        let leaf = node.leaf;
        if let Some(before) = before {
            self.promised.remove(&(before, cpu));
        }
        if let Some(wakeup) = wakeup {
            self.promised.insert((wakeup, cpu));
        }
        if before.is_some() {
            self.changed.extend(leaf.map(|leaf| self.root_above(leaf)));
        }
        Ok(Promise {
            of_cpu: cpu,
            is_made: wakeup.is_some(),
        })
    }

    fn root_above(&self, group: u32) -> u32 {
        let mut root = group;
        while let Some(parent) = self.groups[root as usize].parent {
            root = parent;
        }
        root
    }

    /// `tmigr_group_expiry` and `tmigr_update_events`.
    fn expiry(&mut self, line: &Line) -> Result<(), Failure> {
        let group = self.group(line, "group")?;
        self.groups[group as usize].first = Some(line.time_or_never("next_expiry")?);
        self.changed.insert(group);
        Ok(())
    }

    /// `tmigr_group_set_cpu_active` and `tmigr_group_set_cpu_inactive`.
    fn state(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let id = self.group(line, "group")?;
        let active = line.mask("active")?;
        let migrator = if line.is_null("migrator")? {
            None
        } else {
            Some(line.mask("migrator")?)
        };
        let seq = line.whole("seq")?;
        let group = &mut self.groups[id as usize];
        to.check(MIGRATOR);
        // A group is not locked while it changes, so a CPU may tell of its change behind one that came later.
        let is_latest = match group.seq {
            None => {
                group.began = seq;
                true
            }
            Some(before) if seq > before => {
                let ahead = seq - before - 1;
                if ahead > AHEAD_MAX {
                    let what = format!("change {seq} of group {id} follows {before}: one was lost");
                    to.broken(MIGRATOR, what);
                } else {
                    let passed = (before + 1..seq).map(|passed| ((id, passed), line.number));
                    self.missing.extend(passed);
                }
                true
            }
            Some(before) => {
                let may_be = seq < group.began || self.missing.remove(&(id, seq)).is_some();
                if !may_be {
                    let what =
                        format!("change {seq} of group {id} was told already, up to {before}");
                    to.broken(MIGRATOR, what);
                }
                false
            }
        };
        match migrator {
            None if active != 0 => {
                to.broken(
                    MIGRATOR,
                    format!("group {id} is active ({active:#b}) and has no migrator"),
                );
            }
            Some(one) if one.count_ones() != 1 => {
                let what = format!("group {id} has {} migrators ({one:#b})", one.count_ones());
                to.broken(MIGRATOR, what);
            }
            Some(one) if active & one == 0 => {
                let what =
                    format!("the migrator {one:#b} of group {id} is not active ({active:#b})");
                to.broken(MIGRATOR, what);
            }
            _ => {}
        }
        if is_latest {
            group.active = active;
            group.migrator = migrator;
            group.seq = Some(seq);
            self.changed.insert(id);
        }
        Ok(())
    }

    /// Checks, at the end of the trace, that each change that was missing was reported later.
    fn end(&self, to: &mut Findings) {
        let last = to.line;
        for ((group, seq), line) in &self.missing {
            to.line = *line;
            to.broken(
                MIGRATOR,
                format!("change {seq} of group {group} was lost: a later one is here"),
            );
        }
        to.line = last;
    }

    /// Checks the groups that changed: what an idle group waits for, the group above it knows; and what the uppermost
    /// group waits for, a CPU has promised.
    fn check_changed(&mut self, to: &mut Findings) {
        let changed = std::mem::take(&mut self.changed);
        let below = |id: &u32| self.groups[*id as usize].children.iter().copied();
        let children: BTreeSet<u32> = changed.iter().flat_map(below).collect();
        for id in changed.union(&children) {
            self.check_group(*id, to);
        }
    }

    fn check_group(&self, id: u32, to: &mut Findings) {
        let group = &self.groups[id as usize];
        let waits = |first: &i64| group.is_idle() && *first != i64::MAX;
        let Some(first) = group.first.filter(waits) else {
            return;
        };
        let known = match group
            .parent
            .map(|parent| (parent, &self.groups[parent as usize]))
        {
            None => self.is_promised(first),
            Some((parent, above)) => match above.first {
                None => return,
                Some(above) if above > first => Err(format!("group {parent} was not told")),
                Some(_) => Ok(()),
            },
        };
        to.check(COVERED);
        if let Err(why) = known {
            to.broken(COVERED, format!("idle group {id} waits for {first}: {why}"));
        }
    }

    fn is_covered(&self, cpu: u32, time: i64) -> Result<(), String> {
        let mut next = self.nodes.get(&cpu).and_then(|node| node.leaf);
        while let Some(id) = next {
            let group = &self.groups[id as usize];
            if group.first.is_some_and(|first| first > time) {
                return Err(format!("group {id} was not told"));
            }
            // Of a group without an event it is not known whether a CPU is awake.
            if !group.is_idle() {
                return Ok(());
            }
            next = group.parent;
        }
        self.is_promised(time)
    }

    /// Returns an error unless a CPU promised to wake up by `time`, while all of them sleep.
    fn is_promised(&self, time: i64) -> Result<(), String> {
        match self.promised.first() {
            Some((first, _)) if *first <= time => Ok(()),
            Some((first, by)) => Err(format!(
                "all CPUs sleep, and CPU {by} promised {first} only"
            )),
            None => Err("all CPUs sleep, and none promised".to_owned()),
        }
    }
}
