//! Descriptions of the tree, for drawings and checks. Each value was true at some moment during the call.

use super::{ChildSlots, GroupId, Hierarchy, HierarchyHost, LEVELS_MAX};
use crate::cpu::CpuId;
use crate::time::Instant;
use crate::trace::line::Setting;

/// A child of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Child {
    /// A CPU, in a leaf group.
    Cpu(CpuId),
    /// A group of the level below.
    Group(GroupId),
}

/// A rule of the tree's shape that does not hold (spec C-10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misshapen {
    /// A group has no parent and is not the root (R23).
    SecondRoot(GroupId),
    /// Two children of the group have the same place, or a child has a place that was never assigned (TI2).
    Places(GroupId),
    /// A child below the cross-node level belongs to another NUMA node (R25).
    Node(GroupId),
    /// A child of the group is not exactly one level below the group.
    Level(GroupId),
    /// The state of the group breaks STATE-1 or STATE-2.
    State(GroupId),
}

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Returns the number of groups. The groups are numbered from 0, and [`HierarchyHost::group`] returns a group by
    /// its number.
    #[must_use]
    pub fn groups(&self) -> u32 {
        self.shape.lock(None).groups
    }

    /// Calls `each` for each group, each connection of a group with its parent, and each of a CPU, in this order: the
    /// lines of the tree in a trace file.
    pub fn for_each_setting(&self, mut each: impl FnMut(Setting)) {
        let groups = || (0..self.groups()).map(|id| self.group(GroupId(id)));
        for group in groups() {
            each(Setting::Group {
                group: group.id().0,
                level: group.level(),
                node: group.node().0,
            });
        }
        for group in groups() {
            if let Some(parent) = group.parent() {
                each(Setting::Child {
                    group: group.id().0,
                    parent: parent.0,
                    slot: group.slot(),
                });
            }
        }
        for cpu in (0..self.host.cpus()).map(CpuId) {
            let Some(node) = self.host.node(cpu) else {
                continue;
            };
            if let Some(leaf) = node.leaf() {
                each(Setting::Cpu {
                    cpu,
                    parent: leaf.0,
                    slot: node.slot(),
                });
            }
        }
    }

    /// Calls `each` for each CPU that takes part in the hierarchy, with the time at which the CPU promised to wake up,
    /// [`Instant::FOREVER`] without a promise. The node of the CPU is locked during the call, so the CPU cannot change
    /// state while `each` runs.
    pub fn for_each_available(&self, mut each: impl FnMut(CpuId, Instant)) {
        for cpu in (0..self.host.cpus()).map(CpuId) {
            let Some(node) = self.available_node(cpu) else {
                continue;
            };
            let guard = node.lock();
            if node.is_available() {
                each(cpu, node.wakeup());
            }
            drop(guard);
        }
    }

    /// Returns the group without a parent; `None` before the first CPU.
    #[must_use]
    pub fn root(&self) -> Option<GroupId> {
        self.shape.lock(None).root
    }

    /// Returns the present number of levels of groups, which may be smaller than the layout allows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.root().map_or(0, |root| self.group(root).level() + 1)
    }

    /// Returns the children of a group, in the order of their numbers. Takes time in proportion to the number of all
    /// groups and CPUs.
    pub fn children(&self, of: GroupId) -> impl Iterator<Item = Child> {
        let is_leaf = self.group(of).level() == 0;
        let cpus = if is_leaf { self.host.cpus() } else { 0 };
        let groups = if is_leaf { 0 } else { self.groups() };
        let cpus = (0..cpus)
            .map(CpuId)
            .filter(move |cpu| self.host.node(*cpu).and_then(|node| node.leaf()) == Some(of))
            .map(Child::Cpu);
        let groups = (0..groups)
            .map(GroupId)
            .filter(move |id| self.group(*id).parent() == Some(of))
            .map(Child::Group);
        cpus.chain(groups)
    }

    /// Walks the whole tree and compares it with the rules of its shape.
    ///
    /// # Errors
    ///
    /// The first rule that does not hold.
    pub fn check(&self) -> Result<(), Misshapen> {
        let (groups, root) = {
            let shape = self.shape.lock(None);
            (shape.groups, shape.root)
        };
        for id in (0..groups).map(GroupId) {
            let group = self.group(id);
            if group.parent().is_none() && root != Some(id) {
                return Err(Misshapen::SecondRoot(id));
            }
            if !group.state().is_valid() {
                return Err(Misshapen::State(id));
            }
            if group.level() >= self.layout.levels().min(LEVELS_MAX) {
                return Err(Misshapen::Level(id));
            }
            let mut places = 0_u16;
            for child in self.children(id) {
                let slot = match child {
                    Child::Cpu(cpu) => self.host.node(cpu).map(|node| node.slot()),
                    Child::Group(below) => {
                        let below = self.group(below);
                        if below.level() + 1 != group.level() {
                            return Err(Misshapen::Level(below.id()));
                        }
                        let is_one_node = group.level() < self.layout.cross_node_level();
                        if is_one_node && below.node() != group.node() {
                            return Err(Misshapen::Node(below.id()));
                        }
                        Some(below.slot())
                    }
                };
                let Some(slot) = slot else { continue };
                let is_taken = ChildSlots::from_bits(places).contains(slot);
                if is_taken || usize::from(slot.number()) >= group.children() {
                    return Err(Misshapen::Places(id));
                }
                places |= 1 << slot.number();
            }
            if places.count_ones() as usize != group.children() {
                return Err(Misshapen::Places(id));
            }
        }
        Ok(())
    }
}
