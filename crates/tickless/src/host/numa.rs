//! The NUMA node of a thread.
//!
//! Groups of the hierarchies are separated by node, so that threads which fire each other's timers share a memory. A
//! thread belongs to the node of the CPUs on which it may run, if all of them are on one node: in this way pinned
//! workers find their node. Any other thread belongs to the node on which it runs when it occupies its base, and keeps
//! that node. The scheduler keeps threads near their memory, and the place in a tree is fixed. A base that becomes free
//! is given to a thread of its node.
//!
//! # Limits
//!
//! The nodes are read once. A thread that is pinned to another node after its first timer keeps its old place. If the
//! kernel does not report nodes, all threads are on node 0, and so are threads on CPUs for which the kernel reports no
//! node.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::OnceLock;

use tickless_core::hierarchy::Layout;

use super::sys::threads;

/// The CPUs of a node, as the kernel lists them: "0-3,8-11".
type Cpus = Vec<RangeInclusive<u32>>;

/// The nodes of the machine that have CPUs, numbered without gaps.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    cpus: Vec<Cpus>,
}

impl Nodes {
    fn read(root: &Path) -> Self {
        let mut nodes = Vec::<(u32, Cpus)>::new();
        let entries = fs::read_dir(root.join("sys/devices/system/node"));
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("node"));
            let Some(number) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            // A node whose list cannot be read counts as one without CPUs.
            let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
            let cpus: Cpus = list.trim().split(',').filter_map(parse).collect();
            let place = nodes.partition_point(|(before, _)| *before < number);
            nodes.insert(place, (number, cpus));
        }
        nodes.retain(|(_, cpus)| !cpus.is_empty());
        let cpus = nodes.into_iter().map(|(_, cpus)| cpus).collect();
        Self { cpus }
    }

    /// Returns whether all threads are on the same node.
    fn is_one(&self) -> bool {
        self.cpus.len() <= 1
    }

    fn of_cpu(&self, cpu: u32) -> u32 {
        let has_cpu = |cpus: &Cpus| cpus.iter().any(|range| range.contains(&cpu));
        self.cpus.iter().position(has_cpu).map_or(0, number)
    }

    /// Returns the node of a thread that runs on `cpu`, and may run on the CPUs for which `allowed` returns true, if
    /// these are known.
    fn of_thread(&self, allowed: Option<impl Fn(u32) -> bool>, cpu: u32) -> u32 {
        let Some(allowed) = allowed else {
            return self.of_cpu(cpu);
        };
        let may_use = |cpus: &Cpus| cpus.iter().cloned().flatten().any(&allowed);
        let mut usable = (0..).zip(&self.cpus).filter(|(_, cpus)| may_use(cpus));
        match (usable.next(), usable.next()) {
            (Some((only, _)), None) => only,
            _ => self.of_cpu(cpu),
        }
    }

    /// Returns the layout of a tree of up to `threads` threads, in which each group has `width` children. Below the
    /// cross-node level a group covers as many threads as the largest node has CPUs, as in the drawing of `tickless
    /// topology`. There may be many more threads than CPUs; these threads are in additional groups of their node.
    pub(super) fn layout(&self, threads: usize, width: usize) -> Layout {
        let threads = number(threads);
        if self.is_one() {
            return Layout::new(threads, 1, width);
        }
        let size = |cpus: &Cpus| cpus.iter().map(|range| range.clone().count()).sum();
        let fullest = number(self.cpus.iter().map(size).max().unwrap_or(1)).min(threads);
        // Of parts of that size there are as many as it takes, and one that is not full for each node.
        let parts = threads
            .div_ceil(fullest)
            .saturating_add(number(self.cpus.len()));
        Layout::new(fullest.saturating_mul(parts), parts, width)
    }
}

/// Reads a part of a list: "3", or "0-3".
fn parse(part: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the nodes of this machine.
pub(super) fn nodes() -> &'static Nodes {
    static NODES: OnceLock<Nodes> = OnceLock::new();
    NODES.get_or_init(|| {
        if cfg!(miri) {
            Nodes::default()
        } else {
            Nodes::read(Path::new("/"))
        }
    })
}

/// Returns the node of this thread.
///
/// # Cost
///
/// On a machine with one node there is no cost; else one system call.
pub(super) fn of_this_thread() -> u32 {
    let nodes = nodes();
    if nodes.is_one() {
        return 0;
    }
    let cpu = threads::cpu().unwrap_or(u32::MAX);
    nodes.of_thread(threads::allowed_cpus(), cpu)
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use tickless_core::hierarchy::{LEVELS_MAX, Layout};

    use super::{Nodes, parse};
    #[cfg(feature = "worker")]
    use crate::topology::tests::fixture;

    const THREADS_MAX: usize = 1 << 16;
    const WIDTH: usize = 8;

    pub(crate) fn nodes_of(name: &str) -> Nodes {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/topology");
        Nodes::read(&fixtures.join(name))
    }

    fn of_thread(nodes: &Nodes, allowed: &str, cpu: u32) -> u32 {
        let allowed = allowed.split(',').filter_map(parse).flatten();
        nodes.of_thread(Some(|cpu| allowed.clone().any(|may| may == cpu)), cpu)
    }

    #[test]
    fn a_pinned_thread_belongs_to_the_node_of_its_cpus_and_others_to_where_they_run() {
        let nodes = nodes_of("two-sockets");
        // CPUs 0-1,8-9; 2-3,10-11; 4-5,12-13; 6-7,14-15.
        assert_eq!(nodes.cpus.len(), 4);
        // It runs on node 0 still.
        assert_eq!(of_thread(&nodes, "5", 0), 2);
        assert_eq!(of_thread(&nodes, "2-3,10-11", 0), 1);
        assert_eq!(of_thread(&nodes, "0-15", 11), 1);
        assert_eq!(of_thread(&nodes, "1-2", 2), 1);
        let unknown = None::<fn(u32) -> bool>;
        assert_eq!(nodes.of_thread(unknown, 14), 3);
        assert_eq!(nodes.of_thread(unknown, 4_000), 0);
        // Only CPUs that the kernel says nothing of.
        assert_eq!(of_thread(&nodes, "4000", 6), 3);
    }

    #[test]
    fn nodes_without_cpus_and_machines_without_nodes_are_no_trouble() {
        for name in ["one-cpu", "no-such-machine"] {
            let nodes = nodes_of(name);
            assert!(nodes.is_one(), "{name}");
            assert_eq!(of_thread(&nodes, "0", 0), 0);
            let threads = u32::try_from(THREADS_MAX).unwrap();
            assert_eq!(
                nodes.layout(THREADS_MAX, WIDTH),
                Layout::new(threads, 1, WIDTH)
            );
        }
    }

    /// Groups contain threads of several nodes from the same level on as in the drawing.
    #[cfg(feature = "worker")]
    #[test]
    fn trees_of_threads_are_separated_as_the_drawing_says() {
        let machine = fixture("two-sockets");
        let fullest = machine.nodes().iter().map(|node| node.cpus.len()).max();
        let fullest = u32::try_from(fullest.unwrap()).unwrap();
        let count = u32::try_from(machine.nodes().len()).unwrap();
        let drawn = Layout::new(fullest * count, count, WIDTH);
        let layout = nodes_of("two-sockets").layout(THREADS_MAX, WIDTH);
        assert_eq!(layout.cross_node_level(), drawn.cross_node_level());
    }

    #[test]
    fn there_is_room_for_every_thread_however_unevenly_they_are_spread() {
        for nodes in [2, 3, 8, 64, 1_024_u32] {
            for fullest in [1, 7, 8, 9, 64, 100, 512, 4_096] {
                let all = vec![vec![0..=fullest - 1]; usize::try_from(nodes).unwrap()];
                let layout = Nodes { cpus: all }.layout(THREADS_MAX, WIDTH);
                assert!(layout.levels() <= LEVELS_MAX);
                let reach = |levels: usize| (WIDTH as u64).pow(u32::try_from(levels).unwrap());
                let part = reach(layout.cross_node_level());
                // Each node may leave a part that is not full.
                let parts = (THREADS_MAX as u64).div_ceil(part) + u64::from(nodes);
                let room = reach(layout.levels() - layout.cross_node_level());
                assert!(
                    parts <= room,
                    "{nodes} nodes of {fullest}: {parts} > {room}"
                );
            }
        }
    }
}
