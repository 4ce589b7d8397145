//! Tests of the construction of the tree, and of its growth while it is in use (spec C-5.2, C-8.3).

use std::rc::Rc;
use std::vec::Vec;

use proptest::prelude::{prop_assert_eq, proptest};

use crate::cpu::CpuId;
use crate::hierarchy::tests::host::{Tree, at, empty_tree, join};
use crate::hierarchy::{
    Child, ChildSlot, GroupId, HierarchyHost, MigratorPolicy, NumaNode, PrepareError, Presence,
    Pull, State, Step,
};

fn built<const WIDTH: usize>(cpus: u32, nodes: u32, node_of: impl Fn(u32) -> u32) -> Tree<WIDTH> {
    let tree = empty_tree(cpus, nodes, MigratorPolicy::LowestBit);
    for cpu in 0..cpus {
        tree.prepare(CpuId(cpu), NumaNode(node_of(cpu))).unwrap();
        assert_eq!(tree.check(), Ok(()), "after CPU {cpu}");
    }
    tree
}

fn groups_by_level<const WIDTH: usize>(tree: &Tree<WIDTH>) -> Vec<u32> {
    let mut levels = std::vec![0; tree.height()];
    for id in (0..tree.groups()).map(GroupId) {
        levels[tree.host().group(id).level()] += 1;
    }
    levels
}

/// R23: after the ninth CPU exactly one group has no parent.
#[test]
fn r23_the_ninth_cpu_makes_one_new_root() {
    let tree = built::<8>(9, 1, |_| 0);
    assert_eq!(groups_by_level(&tree), [2, 1]);
    let root = tree.root().unwrap();
    let children: Vec<Child> = tree.children(root).collect();
    assert_eq!(
        children,
        [Child::Group(GroupId(0)), Child::Group(GroupId(1))]
    );
    // Example 8: the place of the old root was kept for it.
    assert_eq!(tree.host().group(GroupId(0)).slot(), ChildSlot::new(0));
}

#[test]
fn r23_every_size_makes_one_tree_of_the_height_it_needs() {
    for cpus in 1..=70 {
        let tree = built::<8>(cpus, 1, |_| 0);
        let height = if cpus <= 8 {
            1
        } else if cpus <= 64 {
            2
        } else {
            3
        };
        assert_eq!(tree.height(), height, "{cpus} CPUs");
    }
    for cpus in 1..=40 {
        built::<2>(cpus, 1, |_| 0);
        built::<3>(cpus, 1, |_| 0);
        built::<16>(cpus, 1, |_| 0);
    }
}

/// R24: the host refuses storage at each step of construction. The tree is unchanged, and growth continues when the
/// host has storage.
#[test]
fn r24_a_refused_allocation_changes_nothing() {
    let tree = empty_tree::<2>(16, 4, MigratorPolicy::LowestBit);
    let ample = *tree.host().room.lock().unwrap();
    for cpu in 0..16 {
        let before = tree.groups();
        let mut refused = 0;
        for room in before.. {
            *tree.host().room.lock().unwrap() = room;
            match tree.prepare(CpuId(cpu), NumaNode(cpu / 4)) {
                Ok(()) => break,
                Err(error) => {
                    let PrepareError::NoRoom { groups } = error else {
                        panic!("{error}");
                    };
                    assert!(groups > room);
                    refused += 1;
                }
            }
            assert_eq!(tree.groups(), before);
            assert_eq!(tree.check(), Ok(()));
            assert_eq!(tree.host().node(CpuId(cpu)).unwrap().leaf(), None);
        }
        assert_eq!(
            tree.groups(),
            before + refused,
            "one refusal for each group that was made"
        );
        assert_eq!(tree.check(), Ok(()));
    }
    *tree.host().room.lock().unwrap() = ample;
}

/// R24: the CPUs would need more levels than the layout has.
#[test]
fn r24_a_tree_that_would_be_too_high_is_refused() {
    // Laid out for four CPUs on one node, and then they come from three.
    let tree = empty_tree::<2>(4, 1, MigratorPolicy::LowestBit);
    assert_eq!(tree.layout().levels(), 2);
    tree.prepare(CpuId(0), NumaNode(0)).unwrap();
    let refused = tree.prepare(CpuId(1), NumaNode(1));
    assert_eq!(refused, Err(PrepareError::TooHigh { levels: 2 }));
    assert_eq!(tree.check(), Ok(()));
    assert_eq!(tree.groups(), 1);
    tree.prepare(CpuId(2), NumaNode(0)).unwrap();
    assert_eq!(
        tree.prepare(CpuId(9), NumaNode(0)),
        Err(PrepareError::NoNode)
    );
}

/// R25: CPU 0 of node 0, CPU 1 of node 1, then the rest. The groups above CPU 1 reach the cross-node level at once.
#[test]
fn r25_no_group_below_the_cross_node_level_mixes_nodes() {
    let tree = built::<2>(16, 2, |cpu| u32::from(cpu == 1 || cpu >= 9));
    assert_eq!(tree.layout().cross_node_level(), 3);
    assert_eq!(tree.height(), 4);
    let two = empty_tree::<2>(16, 2, MigratorPolicy::LowestBit);
    two.prepare(CpuId(0), NumaNode(0)).unwrap();
    assert_eq!(two.height(), 1);
    two.prepare(CpuId(1), NumaNode(1)).unwrap();
    assert_eq!(
        (two.height(), two.groups()),
        (4, 7),
        "one chain for each node, and the root"
    );
    assert_eq!(two.check(), Ok(()));
}

/// R21: the tree grows while CPU 0 is awake. The new root knows that CPU 0 is awake, and can hand the duty over.
#[test]
fn r21_an_active_old_root_is_active_in_the_new_one() {
    let tree = empty_tree::<2>(8, 1, MigratorPolicy::LowestBit);
    join(&tree, 0, Presence::Awake);
    for cpu in 1..8 {
        join(&tree, cpu, Presence::Idle);
        tree.check_states();
    }
    tree.arms(7, 10);
    tree.ticks(0, 10);
    assert_eq!(tree.fired().len(), 1, "CPU 0 is migrator of all of it");
}

/// R21: no CPU is awake when the tree grows. The new root knows the events of the idle CPUs.
#[test]
fn r21_an_idle_old_root_is_listed_in_the_new_one() {
    let tree = empty_tree::<2>(8, 1, MigratorPolicy::LowestBit);
    join(&tree, 0, Presence::Idle);
    join(&tree, 1, Presence::Idle);
    assert_eq!(tree.arms(0, 10), at(10));
    join(&tree, 2, Presence::Awake);
    tree.check_states();
    tree.check_covered();
    // Even before anybody of the old part woke: the newcomer pulls.
    tree.ticks(2, 10);
    assert_eq!(tree.fired().len(), 1);
}

/// R21: no CPU is awake. The CPU that has promised serves between the link and the publication in the new root, which
/// is empty at that time. Its promise for the remaining events stays.
#[test]
fn r21_an_idle_server_comes_by_while_the_root_grows() {
    let tree = Rc::new(empty_tree::<2>(4, 1, MigratorPolicy::LowestBit));
    join(&tree, 0, Presence::Idle);
    join(&tree, 1, Presence::Idle);
    assert_eq!(tree.arms(1, 12), at(12));
    tree.script(
        |step| {
            matches!(
                step,
                Step::Linked {
                    child: GroupId(0),
                    ..
                }
            )
        },
        |tree| {
            let mut budget = u32::MAX;
            let pull = tree.serve_remote(CpuId(1), at(11), &mut budget);
            assert_eq!(pull, Pull::default());
        },
    );
    tree.prepare(CpuId(2), NumaNode(0)).unwrap();
    tree.check_all();
}

/// CPU 0 treats the old root as the root while the tree grows, and publishes there after the new root has adopted the
/// old root. CPU 2 wakes up at that time, but does not find the event. So CPU 0 must promise itself.
#[test]
fn what_only_a_former_root_knows_is_promised_by_its_own_cpu() {
    let tree = Rc::new(empty_tree::<2>(4, 1, MigratorPolicy::LowestBit));
    join(&tree, 0, Presence::Idle);
    join(&tree, 1, Presence::Idle);
    assert_eq!(tree.arms(1, 12), at(12));
    let publishes = Step::Publishing { group: GroupId(0) };
    tree.script(
        move |step| step == publishes,
        |tree| {
            join(tree, 2, Presence::Idle);
            assert_eq!(tree.arms(2, 10), at(10));
        },
    );
    assert_eq!(tree.arms(0, 10), at(10));
    assert!(tree.host().script_is_done());
    tree.check_states();
    tree.let_time_run(0, 12);
    assert_eq!(tree.fired().len(), 3);
}

/// R26: the walk of the first CPU that wakes in a leaf is still below the root while a second CPU makes the tree grow.
/// No activation is spurious or missing.
#[test]
fn r26_growth_while_the_first_waker_is_on_its_way_up() {
    let tree = Rc::new(empty_tree::<2>(8, 1, MigratorPolicy::LowestBit));
    for cpu in 0..4 {
        join(&tree, cpu, Presence::Idle);
    }
    let old_root = tree.root().unwrap();
    tree.script(
        |step| {
            matches!(
                step,
                Step::State {
                    group: GroupId(0),
                    ..
                }
            )
        },
        move |tree| {
            tree.wakes(1);
            tree.prepare(CpuId(4), NumaNode(0)).unwrap();
            assert_eq!(tree.host().group_state(old_root), State::IDLE);
            let root = tree.root().unwrap();
            assert!(!tree.host().group_state(root).is_active(), "spurious");
        },
    );
    tree.wakes(0);
    tree.check_all();
    let root = tree.root().unwrap();
    assert_ne!(root, old_root);
    assert!(tree.host().group_state(root).is_active(), "missing");
}

/// R27: the root grows between any two steps of one walk to idle that publishes a timer.
#[test]
fn r27_the_root_grows_in_the_middle_of_a_walk() {
    let tree = Rc::new(empty_tree::<2>(16, 1, MigratorPolicy::LowestBit));
    join(&tree, 0, Presence::Awake);
    join(&tree, 1, Presence::Idle);
    tree.arms(0, 10);
    let grow = |tree: &Tree<2>| {
        let members = (0..16)
            .filter(|cpu| tree.node(*cpu).leaf().is_some())
            .count();
        let cpu = u32::try_from(members).unwrap();
        let root = tree.root();
        for next in cpu..16 {
            tree.prepare(CpuId(next), NumaNode(0)).unwrap();
            if tree.root() != root {
                return;
            }
        }
    };
    for _ in 0..3 {
        tree.script(
            |step| matches!(step, Step::State { .. } | Step::Publishing { .. }),
            grow,
        );
    }
    let cover = tree.idles(0);
    assert_eq!(cover, at(10));
    tree.check_all();
    tree.let_time_run(9, 10);
    assert_eq!(tree.fired().len(), 1);
}

#[test]
fn preparing_again_changes_nothing() {
    let tree = built::<2>(4, 1, |_| 0);
    tree.prepare(CpuId(3), NumaNode(0)).unwrap();
    assert_eq!(tree.groups(), 3);
    assert_eq!(tree.check(), Ok(()));
}

proptest! {
    /// TI2, TI3, STATE-5.
    ///
    /// CPUs of several NUMA nodes join in any order. The tree keeps its rules after each CPU, and has the groups that
    /// the layout computed.
    #[test]
    fn every_order_of_nodes_builds_a_tree_that_keeps_its_rules(
        order in proptest::collection::vec(0..4_u32, 1..40),
    ) {
        let cpus = u32::try_from(order.len()).unwrap();
        let node_of = |cpu: u32| order[cpu as usize];
        // As if each node had as many CPUs as the fullest.
        let fullest = (0..4).map(|node| order.iter().filter(|of| **of == node).count()).max();
        let layout_cpus = 4 * u32::try_from(fullest.unwrap()).unwrap();
        let layout = crate::hierarchy::Layout::new(layout_cpus, 4, 2);
        let tree: Tree<2> = crate::hierarchy::Hierarchy::new(
            crate::hierarchy::tests::host::Host::new(cpus),
            layout,
            MigratorPolicy::LowestBit,
        );
        for cpu in 0..cpus {
            tree.prepare(CpuId(cpu), NumaNode(node_of(cpu))).unwrap();
            prop_assert_eq!(tree.check(), Ok(()));
        }
        let foretold = layout.groups(cpus, 2, |cpu| NumaNode(node_of(cpu))).unwrap();
        let foretold: Vec<u32> = foretold.into_iter().filter(|groups| *groups > 0).collect();
        prop_assert_eq!(groups_by_level(&tree), foretold);
    }
}
