//! The order in which a worker tries others to steal tasks from: the nearest first, so that tasks stay near their data.
//!
//! A task that is pulled leaves its data in the caches of the other CPU. Between the two threads of a core nothing is
//! lost. Between cores that share their last-level cache, little is lost. Across nodes, the task's memory stays on the
//! old node. So a worker that would idle first tries to steal from workers near by, and a worker with too many tasks
//! wakes an idle worker near by. The places of workers are known if the workers are pinned. The system may move other
//! workers at any time, so these have no order of distance: each tries the workers after it by number.

use crate::topology::Topology;

/// The distance between two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    SameCore,
    SameCache,
    SameNode,
    SamePackage,
    Apart,
}

/// The other workers as seen from each worker, the nearest first.
#[derive(Debug)]
pub(crate) struct StealOrder(Box<[Box<[usize]>]>);

impl StealOrder {
    /// Returns the order for workers on `cpus`, by number. `None` if a worker has no CPU.
    pub(crate) fn of(machine: &Topology, cpus: &[Option<u32>]) -> Option<Self> {
        let cpus: Vec<u32> = cpus.iter().copied().collect::<Option<_>>()?;
        let count = cpus.len();
        let others = |worker: usize| {
            // Each begins behind itself, so that equals are not all asked in one order.
            let mut others: Vec<usize> = (1..count).map(|step| (worker + step) % count).collect();
            others.sort_by_key(|&other| distance(machine, cpus[worker], cpus[other]));
            others.into_boxed_slice()
        };
        Some(Self((0..count).map(others).collect()))
    }

    /// Returns the other workers as seen from `worker`, the nearest first.
    pub(crate) fn others(&self, worker: usize) -> &[usize] {
        &self.0[worker]
    }
}

fn distance(machine: &Topology, one: u32, other: u32) -> Distance {
    let (Some(here), Some(there)) = (machine.cpu(one), machine.cpu(other)) else {
        return Distance::Apart;
    };
    // What is not known is the same for no two.
    let same = |here: Option<u32>, there: Option<u32>| here.is_some() && here == there;
    let cache = machine.last_level_cache(one);
    if here.siblings.contains(other) {
        Distance::SameCore
    } else if cache.is_some_and(|cache| cache.cpus.contains(other)) {
        Distance::SameCache
    } else if same(here.node, there.node) {
        Distance::SameNode
    } else if same(here.package, there.package) {
        Distance::SamePackage
    } else {
        Distance::Apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fixture;

    fn near(machine: &str, cpus: impl IntoIterator<Item = u32>) -> StealOrder {
        let cpus: Vec<_> = cpus.into_iter().map(Some).collect();
        StealOrder::of(&fixture(machine), &cpus).expect("all are pinned")
    }

    #[test]
    fn siblings_come_first_and_other_packages_last() {
        // Cores of CPUs n and n + 8; nodes 0-1,8-9 and so on, each with a cache; packages 0-3,8-11 and 4-7,12-15.
        let near = near("two-sockets", 0..16);
        assert_eq!(near.others(0)[0], 8);
        assert_eq!(near.others(0)[1..3], [1, 9]);
        assert_eq!(near.others(0)[3..7], [2, 3, 10, 11]);
        assert_eq!(near.others(13)[0], 5);
        assert_eq!(near.others(13)[1..3], [4, 12]);
        assert_eq!(near.others(13)[3..7], [14, 15, 6, 7]);
        for worker in 0..16 {
            let mut all = near.others(worker).to_vec();
            all.push(worker);
            all.sort_unstable();
            assert_eq!(all, (0..16).collect::<Vec<_>>());
        }
    }

    #[test]
    fn workers_are_not_the_cpus_that_they_are_on() {
        // Worker 1 is the sibling of worker 2, on CPUs 3 and 11.
        let near = near("two-sockets", [0, 3, 11, 15]);
        assert_eq!(near.others(1), [2, 0, 3]);
        assert_eq!(near.others(3), [0, 1, 2]);
    }

    #[test]
    fn of_workers_that_may_be_anywhere_nothing_is_known() {
        let machine = fixture("two-cores");
        assert!(StealOrder::of(&machine, &[Some(0), None]).is_none());
        let unknown = StealOrder::of(&machine, &[Some(0), Some(4_000), Some(1)]);
        assert_eq!(unknown.expect("all are pinned").others(0)[1], 1, "far");
    }
}
