//! The worked examples of spec C-4.13, each under its name.

use super::{LEFT, ROOT, pairs};
use crate::cpu::CpuId;
use crate::hierarchy::tests::host::{Fired, NEVER, at, empty_tree, idle_tree, join};
use crate::hierarchy::{Leaving, MigratorPolicy, NumaNode, Presence, Step};
use std::rc::Rc;
use std::vec::Vec;

fn cpus_of(fired: &[Fired]) -> Vec<u32> {
    fired.iter().map(|fired| fired.cpu).collect()
}

/// CPU 0 has concluded that its leaf is idle when CPU 1 wakes and reaches the root first.
#[test]
fn example_1_lost_update_without_sequence() {
    let tree = pairs();
    tree.wakes(0);
    tree.wakes(2);
    tree.script(
        |step| {
            matches!(
                step,
                Step::ChildRead {
                    group: ROOT,
                    is_active: false
                }
            )
        },
        |tree| tree.wakes(1),
    );
    assert_eq!(tree.idles(0), NEVER);
    tree.check_all();
}

/// The same race between the readings of the group's and of the child's state. The child's state must be read later.
#[test]
fn example_1_between_group_and_child() {
    let tree = pairs();
    tree.wakes(0);
    tree.wakes(2);
    tree.script(
        |step| matches!(step, Step::GroupRead { group: ROOT }),
        |tree| tree.wakes(1),
    );
    assert_eq!(tree.idles(0), NEVER);
    tree.check_all();
}

/// CPU 0 reaches the root with a new timer while CPU 2, the last awake CPU, goes idle.
#[test]
fn example_2_new_timer_versus_last_cpu_idle() {
    let tree = pairs();
    tree.wakes(2);
    tree.script(
        |step| matches!(step, Step::Publishing { group: ROOT }),
        |tree| assert_eq!(tree.idles(2), NEVER),
    );
    assert_eq!(tree.arms(0, 10), at(10));
    tree.check_all();

    // The other order: CPU 2 finds the timer.
    let tree = pairs();
    tree.wakes(2);
    assert_eq!(tree.arms(0, 10), NEVER);
    assert_eq!(tree.idles(2), at(10));
    tree.check_all();
}

/// Two idle CPUs have the same time; the event in the root names only the first CPU (R58).
#[test]
fn example_3_sibling_behind_a_served_entry() {
    let tree = pairs();
    tree.wakes(2);
    assert_eq!((tree.arms(0, 10), tree.arms(1, 10)), (NEVER, NEVER));
    tree.ticks(2, 10);
    assert_eq!(cpus_of(&tree.fired()), [0, 1]);
    tree.check_all();
}

/// The tree of Example 3 with three levels. In the middle group the time stays and the CPU changes (R18).
#[test]
fn example_4_same_time_other_cpu() {
    let tree = idle_tree::<2>(8);
    assert_eq!(tree.height(), 3);
    tree.wakes(7);
    assert_eq!((tree.arms(0, 10), tree.arms(1, 10)), (NEVER, NEVER));
    tree.ticks(7, 10);
    assert_eq!(cpus_of(&tree.fired()), [0, 1]);
    tree.check_all();
}

/// Times of idle siblings have not risen to the root, so the forecast reads all levels (R16).
#[test]
fn example_5_late_forecast() {
    let tree = pairs();
    assert_eq!(tree.arms(0, 10), at(10));
    assert_eq!(tree.arms(1, 20), NEVER, "CPU 0 wakes up before");
    assert_eq!(tree.arms(2, 30), NEVER);
    tree.wakes(0);
    tree.ticks(0, 10);
    assert_eq!(cpus_of(&tree.fired()), [0], "by itself");
    assert_eq!(tree.host().group_first(ROOT), at(30));
    assert_eq!(tree.host().group_first(LEFT), at(20));
    assert_eq!(tree.peek(CpuId(0), NEVER), at(20));
    assert_eq!(tree.peek(CpuId(0), at(15)), at(15));
    assert_eq!(tree.idles(0), at(20), "and that is what comes of it");
    tree.check_all();
}

/// CPU 0 has promised to wake up for CPU 2, but CPU 1 was faster. The promise must not wake CPU 0 again and again
/// (R17).
#[test]
fn example_6_chasing_ghosts() {
    let tree = pairs();
    tree.wakes(0);
    assert_eq!(tree.arms(2, 10), NEVER);
    assert_eq!(tree.idles(0), at(10));
    tree.wakes(1);
    tree.ticks(1, 10);
    assert_eq!(cpus_of(&tree.fired()), [2]);
    assert!(tree.remote_work_due(CpuId(0), at(10)));
    tree.ticks(0, 10);
    assert!(!tree.remote_work_due(CpuId(0), at(10)));
    assert_eq!(tree.idles(0), NEVER);
    tree.check_all();
}

/// (A) The group that gets a parent goes idle immediately after it was found active.
#[test]
fn example_7_growing_a_root_wrong_direction() {
    for leaves_at_link in [true, false] {
        let tree = Rc::new(empty_tree::<2>(4, 1, MigratorPolicy::LowestBit));
        join(&tree, 0, Presence::Awake);
        join(&tree, 1, Presence::Idle);
        tree.script(
            move |step| match step {
                Step::Linked { child: LEFT, .. } => leaves_at_link,
                Step::ChildRead {
                    group: ROOT,
                    is_active,
                } => is_active,
                _ => false,
            },
            |tree| assert_eq!(tree.idles(0), NEVER),
        );
        tree.prepare(CpuId(2), NumaNode(0)).unwrap();
        assert!(
            !tree.host().group_state(ROOT).is_active(),
            "its migrator would sleep"
        );
        tree.check_all();
        assert_eq!(tree.arms(1, 10), at(10));
        tree.check_all();
    }
}

/// A CPU has changed the old root and is delayed before it reads the root's parent, while the root grows once or twice
/// (R22, R27).
#[test]
fn example_8_publication_order_once_more() {
    for grown in [3, 5] {
        for is_waking in [true, false] {
            let tree = Rc::new(empty_tree::<2>(8, 1, MigratorPolicy::LowestBit));
            join(&tree, 0, Presence::Awake);
            join(&tree, 1, Presence::Idle);
            if is_waking {
                assert_eq!(tree.idles(0), NEVER);
            } else {
                tree.arms(0, 10);
            }
            tree.script(
                |step| matches!(step, Step::State { group: LEFT, .. }),
                move |tree| {
                    for cpu in 2..grown {
                        tree.prepare(CpuId(cpu), NumaNode(0)).unwrap();
                    }
                },
            );
            if is_waking {
                tree.wakes(0);
            } else {
                assert_eq!(tree.idles(0), at(10));
            }
            tree.check_all();
            join(&tree, 2, Presence::Awake);
            tree.check_all();
            tree.let_time_run(0, 11);
        }
    }
}

/// The only active CPU leaves the tree, and so would not keep the promise that it would get.
#[test]
fn example_9_last_timer_holder_isolates() {
    for was_idle in [false, true] {
        let tree = pairs();
        tree.wakes(3);
        assert_eq!(tree.arms(0, 10), NEVER);
        if was_idle {
            assert_eq!(tree.idles(3), at(10));
        }
        tree.clear_available(CpuId(3), Leaving::Isolation).unwrap();
        let heirs = core::mem::take(&mut *tree.host().activated.lock().unwrap());
        assert_eq!(heirs, [CpuId(0)]);
        // What a host makes of it.
        tree.wakes(0);
        assert_eq!(tree.idles(0), at(10));
        tree.check_all();
        tree.let_time_run(0, 10);
        assert_eq!(cpus_of(&tree.fired()), [0]);
    }
}

/// The last CPU of a one-level tree goes idle without a timer, while another CPU has a timer (R15).
#[test]
fn example_10_upstream_fast_path_on_a_one_level_tree() {
    let tree = idle_tree::<4>(4);
    assert_eq!(tree.height(), 1);
    tree.wakes(0);
    assert_eq!(tree.arms(1, 10), NEVER);
    assert_eq!(tree.idles(0), at(10));
    tree.check_all();
}
