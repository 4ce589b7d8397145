//! Tests of CPUs that join and leave, of isolated CPUs, and of threads that are no workers (spec C-5.1 to C-5.4).

use std::vec::Vec;

use super::{LEFT, pairs};
use crate::cpu::CpuId;
use crate::hierarchy::tests::host::{NEVER, Tree, at, empty_tree, idle_tree, join};
use crate::hierarchy::{ChildSlot, Leaving, MigratorPolicy, Presence, Pull, Refused, Step};

fn activated<const WIDTH: usize>(tree: &Tree<WIDTH>) -> Vec<CpuId> {
    core::mem::take(&mut *tree.host().activated.lock().unwrap())
}

/// II3, Spec C-5.1: a CPU that is not available fires its own timers, and changes nothing in the tree.
#[test]
fn an_unavailable_cpu_covers_its_own_timers() {
    let tree = pairs();
    tree.clear_available(CpuId(1), Leaving::Isolation).unwrap();
    tree.host().steps.borrow_mut().clear();
    let cpu = CpuId(1);
    assert_eq!(tree.enter_idle(cpu, at(5)), at(5));
    assert_eq!(tree.rearm_from_idle(cpu, at(4)), at(4));
    assert_eq!(tree.peek(cpu, at(3)), at(3));
    assert!(!tree.remote_work_due(cpu, at(100)));
    let mut budget = 1;
    assert_eq!(
        tree.serve_remote(cpu, at(100), &mut budget),
        Pull::default()
    );
    tree.leave_idle(cpu);
    assert!(tree.host().steps.borrow().is_empty(), "PULL-6");
    tree.check_all();
}

/// R28: the lowest CPU polls and is isolated. The duty moves to another CPU, at once and later.
#[test]
fn r28_an_isolated_cpu_has_no_duty() {
    let tree = idle_tree::<4>(4);
    let migrator = || {
        tree.host()
            .group_state(LEFT)
            .migrator()
            .map(ChildSlot::number)
    };
    tree.wakes(0);
    tree.wakes(1);
    assert_eq!(migrator(), Some(0));
    tree.clear_available(CpuId(0), Leaving::Isolation).unwrap();
    assert_eq!(migrator(), Some(1));
    tree.wakes(2);
    tree.idles(1);
    assert_eq!(migrator(), Some(2));
    tree.check_all();
    tree.set_available(CpuId(0), Presence::Awake).unwrap();
    assert_eq!(tree.available_cpus(), 4);
    tree.check_all();
}

/// ISO-2, XI1: one CPU must remain to serve the others, unless no CPU can.
#[test]
fn the_last_cpu_is_not_isolated_but_may_go_offline() {
    let tree = idle_tree::<2>(2);
    tree.clear_available(CpuId(0), Leaving::Isolation).unwrap();
    let refused = tree.clear_available(CpuId(1), Leaving::Isolation);
    assert_eq!(refused, Err(Refused::LastAvailable));
    assert_eq!(tree.available_cpus(), 1);
    tree.clear_available(CpuId(1), Leaving::Offline).unwrap();
    tree.clear_available(CpuId(1), Leaving::Offline).unwrap();
    assert_eq!(tree.available_cpus(), 0);
    assert_eq!(activated(&tree), []);
    tree.check_all();
}

#[test]
fn a_cpu_that_was_never_prepared_cannot_join_or_leave() {
    let tree = empty_tree::<2>(2, 1, MigratorPolicy::LowestBit);
    let refused = Err(Refused::NotPrepared);
    assert_eq!(tree.set_available(CpuId(0), Presence::Awake), refused);
    assert_eq!(tree.clear_available(CpuId(0), Leaving::Offline), refused);
    assert_eq!(tree.set_available(CpuId(7), Presence::Awake), refused);
}

/// Spec C-3.7: a CPU goes offline while another CPU runs its timers.
#[test]
fn a_cpu_leaves_while_it_is_served() {
    let tree = pairs();
    tree.wakes(2);
    assert_eq!((tree.arms(0, 10), tree.arms(0, 20)), (NEVER, NEVER));
    tree.script(
        |step| matches!(step, Step::Ran { cpu: CpuId(0) }),
        |tree| tree.clear_available(CpuId(0), Leaving::Offline).unwrap(),
    );
    tree.ticks(2, 10);
    tree.check_all();
    tree.ticks(2, 20);
    assert_eq!(
        tree.fired().len(),
        1,
        "the CPU that took it offline moves the rest"
    );
    tree.set_available(CpuId(0), Presence::Idle).unwrap();
    assert_eq!(tree.idles(0), NEVER);
    tree.ticks(2, 20);
    assert_eq!(tree.fired().len(), 1);
    tree.check_all();
}

/// A foreign thread does not inherit a promise, because it could not keep the promise.
#[test]
fn a_promise_is_not_inherited_by_a_foreign_thread() {
    let tree = empty_tree::<4>(4, 1, MigratorPolicy::LowestBit);
    join(&tree, 0, Presence::Foreign);
    for cpu in 1..3 {
        join(&tree, cpu, Presence::Idle);
    }
    assert_eq!(tree.available_cpus(), 2);
    assert_eq!(tree.arms(1, 10), at(10));
    tree.clear_available(CpuId(1), Leaving::Offline).unwrap();
    assert_eq!(activated(&tree), [], "its own timers are its own");
    assert_eq!(tree.arms(0, 20), at(20));
    tree.clear_available(CpuId(2), Leaving::Offline).unwrap();
    assert_eq!(activated(&tree), [], "only the foreign thread is left");
    join(&tree, 3, Presence::Awake);
    tree.check_all();
    tree.ticks(3, 20);
    assert_eq!(tree.fired().len(), 1);
}

/// A foreign thread arms a timer while no CPU is awake; the worker that the host wakes takes over.
#[test]
fn a_foreign_thread_arms_in_a_tree_in_which_everybody_sleeps() {
    let tree = empty_tree::<2>(3, 1, MigratorPolicy::LowestBit);
    join(&tree, 0, Presence::Idle);
    join(&tree, 1, Presence::Idle);
    join(&tree, 2, Presence::Foreign);
    let cover = tree.arms(2, 10);
    assert_eq!(cover, at(10), "no CPU will look after it");
    tree.wakes(0);
    assert_eq!(tree.idles(0), at(10));
    tree.check_all();
    assert_eq!(tree.arms(2, 20), NEVER, "the worker knows");
    assert_eq!(tree.arms(2, 5), at(5), "but not of this");
    tree.wakes(0);
    assert_eq!(tree.idles(0), at(5));
    tree.check_all();
    tree.ticks(0, 20);
    assert_eq!(tree.fired().len(), 3);
    assert_eq!(tree.node(0).wakeup(), NEVER);
    tree.check_all();
}

/// A foreign thread may also serve itself and others, as long as all CPUs are idle.
#[test]
fn a_foreign_thread_serves_where_everybody_sleeps() {
    let tree = empty_tree::<2>(3, 1, MigratorPolicy::LowestBit);
    join(&tree, 0, Presence::Idle);
    join(&tree, 1, Presence::Idle);
    join(&tree, 2, Presence::Foreign);
    tree.arms(1, 9);
    assert_eq!(tree.arms(2, 10), at(9));
    let mut budget = u32::MAX;
    let pull = tree.serve_remote(CpuId(2), at(10), &mut budget);
    assert_eq!(pull.served, 2);
    assert_eq!(tree.fired().len(), 2);
    tree.check_all();
}

/// A foreign thread that ends gives up its promise, and a CPU takes over.
#[test]
fn a_cpu_takes_over_when_a_foreign_thread_leaves() {
    let tree = empty_tree::<2>(3, 1, MigratorPolicy::LowestBit);
    join(&tree, 0, Presence::Idle);
    join(&tree, 1, Presence::Idle);
    join(&tree, 2, Presence::Foreign);
    tree.arms(0, 30);
    tree.arms(2, 10);
    tree.clear_available(CpuId(2), Leaving::Isolation).unwrap();
    assert_eq!(activated(&tree), [CpuId(0)]);
    tree.wakes(0);
    assert_eq!(tree.idles(0), at(30));
    tree.check_all();
}
