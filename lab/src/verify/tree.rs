//! The check of the hierarchy: which CPU expires the timers of which other CPU, according to the state words and
//! events.

use std::collections::{BTreeMap, BTreeSet};

use super::MIGRATOR;
use super::findings::Findings;
use super::read::{Header, Line};
use crate::failure::Failure;

#[derive(Clone, Copy, Debug)]
struct Group {
    parent: Option<u32>,
    active: u16,
    migrator: Option<u16>,
    /// The greatest number of a change of the state; `None` before the first.
    seq: Option<u64>,
    /// The number of the first change in the trace: those before it may be told behind it.
    began: u64,
    first: i64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    leaf: Option<u32>,
    is_available: bool,
    wakeup: i64,
}

/// The most changes of a group that may be missing while a later one was reported: each of so many CPUs makes one.
const AHEAD_MAX: u64 = 4_096;

/// The hierarchy, as the events of the trace describe it.
#[derive(Debug)]
pub(super) struct Tree {
    groups: Vec<Group>,
    nodes: Vec<Node>,
    /// The promises of the CPUs, the earliest first.
    promised: BTreeSet<(i64, u32)>,
    /// The changes, by group and number, that were passed over, and the lines that did so.
    missing: BTreeMap<(u32, u64), u64>,
}

impl Tree {
    pub(super) fn new(header: &Header) -> Self {
        let node = Node {
            leaf: None,
            is_available: false,
            wakeup: i64::MAX,
        };
        Self {
            groups: Vec::new(),
            nodes: vec![node; header.cpus as usize],
            promised: BTreeSet::new(),
            missing: BTreeMap::new(),
        }
    }

    fn cpu(&self, line: &Line) -> Result<u32, Failure> {
        line.number(
            "of_cpu",
            "CPU",
            u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
        )
    }

    fn group(&self, line: &Line, key: &str) -> Result<u32, Failure> {
        line.number(
            key,
            "group",
            u32::try_from(self.groups.len()).unwrap_or(u32::MAX),
        )
    }

    /// `tmigr_group_set`: a group was made.
    pub(super) fn make(&mut self, line: &Line) -> Result<(), Failure> {
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
            active: 0,
            migrator: None,
            seq: None,
            began: 0,
            first: i64::MAX,
        });
        Ok(())
    }

    /// `tmigr_connect_child_parent`.
    pub(super) fn connect_group(&mut self, line: &Line) -> Result<(), Failure> {
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
        self.groups[group as usize].parent = Some(parent);
        Ok(())
    }

    /// `tmigr_connect_cpu_parent`.
    pub(super) fn connect_cpu(&mut self, line: &Line) -> Result<(), Failure> {
        let (cpu, leaf) = (self.cpu(line)?, self.group(line, "parent")?);
        self.nodes[cpu as usize].leaf = Some(leaf);
        Ok(())
    }

    /// `tmigr_cpu_available` and `tmigr_cpu_unavailable`.
    pub(super) fn available(&mut self, line: &Line, is_available: bool) -> Result<(), Failure> {
        let cpu = self.cpu(line)?;
        self.nodes[cpu as usize].is_available = is_available;
        Ok(())
    }

    /// `tmigr_cpu_wakeup`.
    pub(super) fn promises(&mut self, line: &Line) -> Result<(), Failure> {
        let (cpu, wakeup) = (self.cpu(line)?, line.time_or_never("wakeup")?);
        let node = &mut self.nodes[cpu as usize];
        let before = std::mem::replace(&mut node.wakeup, wakeup);
        self.promised.remove(&(before, cpu));
        if wakeup != i64::MAX {
            self.promised.insert((wakeup, cpu));
        }
        Ok(())
    }

    /// `tmigr_group_expiry` and `tmigr_update_events`.
    pub(super) fn expiry(&mut self, line: &Line) -> Result<(), Failure> {
        let group = self.group(line, "group")?;
        self.groups[group as usize].first = line.time_or_never("next_expiry")?;
        Ok(())
    }

    /// `tmigr_group_set_cpu_active` and `tmigr_group_set_cpu_inactive`.
    pub(super) fn state(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
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
        }
        Ok(())
    }

    /// Checks, at the end of the trace, that each change that was missing was reported later.
    pub(super) fn end(&self, to: &mut Findings) {
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

    /// `cpu` goes to sleep, and another may have to run its timer of `time`: a CPU that is awake knows, or promised.
    pub(super) fn is_covered(&self, cpu: u32, time: i64) -> Result<(), String> {
        let node = &self.nodes[cpu as usize];
        if !node.is_available {
            return Err("it is not part of the hierarchy".to_owned());
        }
        let mut next = node.leaf;
        while let Some(id) = next {
            let group = &self.groups[id as usize];
            if group.first > time {
                return Err(format!("group {id} was not told"));
            }
            if group.active != 0 {
                return Ok(());
            }
            next = group.parent;
        }
        match self.promised.first() {
            Some((first, _)) if *first <= time => Ok(()),
            Some((first, by)) => Err(format!(
                "all CPUs sleep, and CPU {by} promised {first} only"
            )),
            None => Err("all CPUs sleep, and none promised".to_owned()),
        }
    }
}
