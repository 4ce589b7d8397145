//! The number of levels and groups that a hierarchy needs, computed from the possible CPUs.

/// The largest number of levels of a hierarchy. Eight levels with groups of eight suffice for sixteen million CPUs; the
/// narrow groups of tests need more levels.
pub const LEVELS_MAX: usize = 16;

/// The number of a NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumaNode(pub u32);

/// The height of a hierarchy, computed once from all possible CPUs (spec C-4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    levels: usize,
    cross: usize,
}

impl Layout {
    /// Computes the layout for `cpus` CPUs, evenly spread over `nodes` NUMA nodes, in groups of `width`.
    ///
    /// The number of levels inside a NUMA node is the smallest with `width^levels` at least the CPUs of one node. The
    /// number of levels above is computed in the same way from the number of nodes. A single CPU needs no hierarchy,
    /// and gets one group.
    ///
    /// # Panics
    ///
    /// When `width` is less than 2.
    #[must_use]
    pub const fn new(cpus: u32, nodes: u32, width: usize) -> Self {
        assert!(width >= 2, "groups of one would never end");
        let nodes = if nodes == 0 { 1 } else { nodes };
        // Rounded up: the fullest node decides.
        let per_node = cpus.div_ceil(nodes);
        let cross = levels_for(per_node, width);
        let levels = cross + levels_for(nodes, width);
        Self {
            levels: if levels == 0 { 1 } else { levels },
            cross,
        }
    }

    /// Returns the largest number of levels of groups, at least 1.
    #[must_use]
    pub const fn levels(self) -> usize {
        self.levels
    }

    /// Returns the lowest level at which a group may have children of several NUMA nodes. Equal to
    /// [`levels`](Self::levels) if there is only one node.
    #[must_use]
    pub const fn cross_node_level(self) -> usize {
        self.cross
    }

    /// Returns the number of groups on each level, the leaves first, after `cpus` CPUs have joined. `node_of` returns
    /// the NUMA node of a CPU. A level that no node needs has zero groups. A program can draw a hierarchy from the
    /// result before the hierarchy exists.
    ///
    /// Returns `None` if the CPUs do not fit, because they are spread very unevenly, or if `cpus` is 0.
    #[must_use]
    pub fn groups(
        self,
        cpus: u32,
        width: usize,
        node_of: impl Fn(u32) -> NumaNode,
    ) -> Option<[u32; LEVELS_MAX]> {
        let width = u32::try_from(width).ok()?;
        let highest = (0..cpus).map(|cpu| node_of(cpu).0).max()?;
        let of_node = |node| {
            (0..cpus)
                .filter(|cpu| node_of(*cpu).0 == node)
                .fold(0_u32, |sum, _| sum + 1)
        };
        let nodes = (0..=highest)
            .filter(|node| of_node(*node) > 0)
            .fold(0_u32, |sum, _| sum + 1);
        let mut groups = [0; LEVELS_MAX];
        let (mut below, mut reach) = (cpus, width);
        for (level, groups_here) in groups.iter_mut().enumerate().take(self.levels) {
            let crosses = level >= self.cross;
            below = if crosses {
                below.div_ceil(width)
            } else {
                (0..=highest)
                    .map(|node| of_node(node).div_ceil(reach))
                    .sum()
            };
            *groups_here = below;
            if below == 1 && (crosses || nodes == 1) {
                return Some(groups);
            }
            reach = reach.saturating_mul(width);
        }
        None
    }
}

/// Returns the smallest number of levels of groups of `width` that hold `things` things; 0 for a single thing.
const fn levels_for(things: u32, width: usize) -> usize {
    let mut reach: u64 = 1;
    let mut levels = 0;
    while reach < things as u64 {
        reach *= width as u64;
        levels += 1;
    }
    levels
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Layout, NumaNode};

    /// Spec C-4.1. The columns are CPUs, nodes, levels and cross-node level.
    #[test]
    fn the_levels_are_those_of_the_table() {
        for (cpus, nodes, levels, cross) in [
            (2, 1, 1, 1),
            (8, 1, 1, 1),
            (9, 1, 2, 2),
            (48, 2, 3, 2),
            (128, 2, 3, 2),
            (144, 4, 3, 2),
            (3_840, 16, 5, 3),
            // One CPU in each node: the leaves mix nodes.
            (4, 4, 1, 0),
            // One CPU alone has no hierarchy upstream; here it has one group.
            (1, 1, 1, 0),
        ] {
            let layout = Layout::new(cpus, nodes, 8);
            assert_eq!(
                (layout.levels(), layout.cross_node_level()),
                (levels, cross),
                "{cpus} CPUs on {nodes} nodes"
            );
        }
    }

    #[test]
    fn a_hierarchy_is_drawn_before_it_exists() {
        let groups = |cpus, nodes| {
            let per_node = cpus / nodes;
            let layout = Layout::new(cpus, nodes, 8);
            let groups = layout
                .groups(cpus, 8, |cpu| NumaNode(cpu / per_node))
                .unwrap();
            groups[..layout.levels()].to_vec()
        };
        assert_eq!(groups(8, 1), [1]);
        assert_eq!(groups(9, 1), [2, 1]);
        assert_eq!(groups(48, 2), [6, 2, 1]);
        assert_eq!(groups(3_840, 16), [480, 64, 16, 2, 1]);
    }
}
