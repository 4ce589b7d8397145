//! The growth of the tree as CPUs are added. A new group is placed above the root or next to other groups, never
//! between a parent and its child (spec C-5.2).

use core::fmt;

use super::group::NO_GROUP;
use super::{ChildSlot, Group, GroupId, Hierarchy, HierarchyHost, LEVELS_MAX, NumaNode, Step};
use crate::cpu::CpuId;

/// State that the construction lock protects.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Number of groups so far. Their numbers are 0 to `groups - 1`.
    pub(super) groups: u32,
    pub(super) root: Option<GroupId>,
    on_level: [u32; LEVELS_MAX],
}

/// The reasons why a CPU could not be prepared. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrepareError {
    /// The host has no node for the CPU.
    NoNode,
    /// The host cannot store the groups that the CPU needs.
    NoRoom {
        /// Number of groups that the tree would have.
        groups: u32,
    },
    /// The tree would become higher than its layout allows. Either the number of CPUs is larger, or the CPUs are spread
    /// more unevenly over the NUMA nodes, than the layout assumes.
    TooHigh {
        /// Largest number of levels.
        levels: usize,
    },
}

impl fmt::Display for PrepareError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode => formatter.write_str("the host has no node for the CPU"),
            Self::NoRoom { groups } => write!(formatter, "no room for {groups} groups"),
            Self::TooHigh { levels } => {
                write!(
                    formatter,
                    "the hierarchy would need more than {levels} levels"
                )
            }
        }
    }
}

impl core::error::Error for PrepareError {}

/// The groups from the leaf of a new CPU up to the first group that is in the tree already.
struct Chain {
    /// The groups from the leaf on.
    groups: [GroupId; LEVELS_MAX],
    /// True for each level whose group is to be made.
    is_new: [bool; LEVELS_MAX],
    len: usize,
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Gives `cpu`, of NUMA node `numa`, its permanent place in the tree. Has no effect if `cpu` has a place. The CPU
    /// does not take part until it is [available](Hierarchy::set_available).
    ///
    /// Called by any CPU but the new one, which has no place yet. The tree may be in use, and all CPUs in it may be
    /// idle.
    ///
    /// # Errors
    ///
    /// See [`PrepareError`]. After an error the tree is unchanged (R24).
    pub fn prepare(&self, cpu: CpuId, numa: NumaNode) -> Result<(), PrepareError> {
        let node = self.host.node(cpu).ok_or(PrepareError::NoNode)?;
        let mut shape = self.shape.lock(None);
        if node.leaf().is_some() {
            return Ok(());
        }
        let chain = self.find(&shape, numa)?;
        let (top, is_new_top) = (chain.groups[chain.len - 1], chain.is_new[chain.len - 1]);
        let old_root = shape.root.filter(|_| is_new_top);
        // The old root reaches the level of the new one by groups of one child.
        let between = old_root.map_or(0, |root| chain.len - 2 - self.group(root).level());
        let made = chain.is_new[..chain.len].iter().filter(|new| **new).count() + between;
        let made = u32::try_from(made).unwrap_or(u32::MAX);
        // All or nothing, before anything is touched (R24).
        let groups = shape.groups.saturating_add(made);
        if groups == NO_GROUP || !self.host.reserve(groups) {
            return Err(PrepareError::NoRoom { groups });
        }
        for (level, &id) in chain.groups[..chain.len].iter().enumerate() {
            if chain.is_new[level] {
                let is_root = level + 1 == chain.len && old_root.is_some();
                self.make(&mut shape, id, level, numa, u8::from(is_root));
            }
        }
        // The new CPU's own way first, from the top down: a CPU that follows a parent finds it complete.
        for pair in chain.groups[..chain.len].windows(2).rev() {
            let child = self.group(pair[0]);
            if child.parent().is_none() {
                self.link(child, pair[1]);
            }
        }
        if let Some(slot) = self.group(chain.groups[0]).take_slot() {
            node.connect(chain.groups[0], slot);
        }
        if let Some(old) = old_root {
            self.link_old_root(&mut shape, old, top);
        }
        if is_new_top {
            shape.root = Some(top);
        }
        Ok(())
    }

    /// Finds the existing groups, and numbers the new groups, for a new CPU of `numa`: from its leaf up to a group that
    /// is in the tree already, or up to a new root.
    fn find(&self, shape: &Shape, numa: NumaNode) -> Result<Chain, PrepareError> {
        let mut chain = Chain {
            groups: [GroupId(NO_GROUP); LEVELS_MAX],
            is_new: [false; LEVELS_MAX],
            len: 0,
        };
        let mut next = shape.groups;
        // Groups of another node below the cross-node level would run timers across nodes: then the way up goes to that
        // level at once (R25).
        let is_own_root = shape
            .root
            .is_none_or(|root| self.group(root).node() == numa);
        let levels = self.layout.levels().min(LEVELS_MAX);
        for level in 0..levels {
            let crosses = level >= self.layout.cross_node_level();
            let existing = (0..shape.groups).map(GroupId).find(|id| {
                let group = self.group(*id);
                group.level() == level
                    && (crosses || group.node() == numa)
                    && group.children() < WIDTH
            });
            // A new group has a new way up; an old one that is full is no way.
            let is_new = existing.is_none();
            let id = existing.unwrap_or(GroupId(next));
            next += u32::from(is_new);
            chain.groups[level] = id;
            chain.is_new[level] = is_new;
            chain.len = level + 1;
            if !is_new && self.group(id).parent().is_some() {
                return Ok(chain);
            }
            let is_only = shape.on_level[level] + u32::from(is_new) == 1;
            if is_only && (is_own_root || crosses) {
                return Ok(chain);
            }
        }
        Err(PrepareError::TooHigh { levels })
    }

    /// Makes the group with the number `id`. `reserved` slots are kept for an old root (Example 8).
    fn make(&self, shape: &mut Shape, id: GroupId, level: usize, numa: NumaNode, reserved: u8) {
        debug_assert_eq!(id.0, shape.groups, "groups are made in order");
        let height = u8::try_from(level).unwrap_or(u8::MAX);
        self.host.place(id, Group::new(id, height, numa, reserved));
        shape.groups += 1;
        shape.on_level[level] += 1;
    }

    /// Connects a group without CPUs with the next free place of its parent.
    fn link(&self, child: &Group<S::Lock, WIDTH>, parent: GroupId) {
        if let Some(slot) = self.group(parent).take_slot() {
            self.connect(child, parent, slot);
        }
    }

    fn connect(&self, child: &Group<S::Lock, WIDTH>, parent: GroupId, slot: ChildSlot) {
        child.connect(parent, slot);
        let child = child.id();
        self.host.step(Step::Linked {
            child,
            parent,
            slot,
        });
    }

    /// Connects the old root with the first place of the new root, which is reserved for it, and passes the state and
    /// the events of the old root up to the new one.
    ///
    /// All existing CPUs are below the old root. As soon as it is linked, their walks continue into the new root.
    fn link_old_root(&self, shape: &mut Shape, old: GroupId, top: GroupId) {
        let old = self.group(old);
        let mut lowest = top;
        for level in (old.level() + 1..self.group(top).level()).rev() {
            let id = GroupId(shape.groups);
            self.make(shape, id, level, old.node(), 1);
            self.connect(self.group(id), lowest, ChildSlot::FIRST);
            lowest = id;
        }
        self.connect(old, lowest, ChildSlot::FIRST);
        // Puts this link between the walks through the old root (ORDER-6): a change of its state before is seen by what
        // follows, and a CPU that changes it later sees the link. So a walk that did not go on, because there was no
        // parent, is made up for here; and one that comes late does it itself (R22, R26).
        old.synchronise();
        let mut child = old;
        while let Some(parent) = child.parent() {
            self.adopt(child, parent);
            child = self.group(parent);
        }
    }
}
