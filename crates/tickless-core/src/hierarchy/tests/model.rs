//! Loom cases in which two CPUs of a small tree race, on weak memory.
//!
//! Each case is named after its race, and lists the possible outcomes. After each schedule STATE-1 to 4 and the
//! coverage PULL-2 hold (see `host`). The required memory orderings are ORDER-1 to ORDER-7.
//!
//! # Limits
//!
//! - The cases have two threads, two levels and one operation for each thread; `fuzz` runs larger random programs.
//! - The locks are blocking locks; the locks of the hosts have models of their own (`tickless_link::bias`).
//! - The number of preemptions is bounded ([`PREEMPTIONS`]).

use std::sync::Arc;

use loom::thread;

use super::host::{NEVER, Tree, empty_tree, join};
use crate::base::model::explore;
use crate::cpu::CpuId;
use crate::hierarchy::{GroupId, MigratorPolicy, NumaNode, Presence};

/// The maximum number of preemptions in a schedule; [`FEWER`] is the number in the case with several operations.
/// Without a bound a case takes hours.
const PREEMPTIONS: usize = 3;
const FEWER: usize = 2;

type Machine = Arc<Tree<2>>;

/// Makes a tree with CPUs 0 and 1 in one leaf, CPU 2 in another leaf, and the root. The CPUs in `awake` are awake, the
/// others are idle.
fn machine(awake: &[u32]) -> Machine {
    let tree = empty_tree::<2>(4, 1, MigratorPolicy::LowestBit);
    for cpu in 0..3 {
        let presence = if awake.contains(&cpu) {
            Presence::Awake
        } else {
            Presence::Idle
        };
        join(&tree, cpu, presence);
    }
    Arc::new(tree)
}

/// Runs `other` on a thread of its own against `this`, and checks the tree afterwards.
fn against<A, B: Send + 'static>(
    machine: &Machine,
    this: impl FnOnce(&Tree<2>) -> A,
    other: impl FnOnce(&Tree<2>) -> B + Send + 'static,
) -> (A, B) {
    let other = {
        let machine = Arc::clone(machine);
        thread::spawn(move || other(&machine))
    };
    let this = this(machine);
    let other = other.join().unwrap();
    machine.check_states();
    machine.check_covered();
    (this, other)
}

/// Returns a wake-up time in nanoseconds; `None` for never.
fn nanos(cover: crate::time::Instant) -> Option<i64> {
    (cover != NEVER).then_some(cover.as_nanos())
}

/// Example 1, ORDER-2, ORDER-3: CPU 0 idles while CPU 1 of the same leaf wakes. Afterwards the root has the true state
/// of the leaf.
#[test]
fn example_1_a_cpu_idles_against_its_sibling_that_wakes() {
    explore(PREEMPTIONS, [true], || {
        let machine = machine(&[0, 2]);
        let (cover, ()) = against(&machine, |tree| tree.idles(0), |tree| tree.wakes(1));
        assert_eq!(cover, NEVER);
        machine.host().group_state(GroupId(0)).is_active()
    });
}

/// Example 2, ORDER-4: idle CPU 0 arms a timer while CPU 2, the last awake CPU, idles. One of them promises to wake up,
/// or both do.
#[test]
fn example_2_a_new_timer_against_the_last_cpu_that_idles() {
    let outcomes = [(Some(10), None), (None, Some(10)), (Some(10), Some(10))];
    explore(PREEMPTIONS, outcomes, || {
        let machine = machine(&[2]);
        let (armed, last) = against(&machine, |tree| tree.arms(0, 10), |tree| tree.idles(2));
        (nanos(armed), nanos(last))
    });
}

/// R52, HAZARD-1: both CPUs of a leaf idle, and the CPU with a timer may be overtaken by the other. No other CPU is
/// awake.
#[test]
fn r52_two_siblings_idle_and_one_has_a_timer() {
    let outcomes = [(Some(10), None), (None, Some(10)), (Some(10), Some(10))];
    explore(PREEMPTIONS, outcomes, || {
        let machine = machine(&[0, 1]);
        machine.arms(0, 10);
        let (first, second) = against(&machine, |tree| tree.idles(0), |tree| tree.idles(1));
        (nanos(first), nanos(second))
    });
}

/// CPU 0, which had promised, wakes, loses its timer, and idles. CPU 2 idles with a later timer. If CPU 2 relies on the
/// promise, CPU 0, which withdraws it, finds the timer of CPU 2.
#[test]
fn a_promise_that_is_withdrawn_while_another_relies_on_it() {
    explore(
        FEWER,
        [
            (None, Some(10)),
            (None, Some(20)),
            (Some(20), None),
            (Some(20), Some(10)),
            (Some(20), Some(20)),
        ],
        || {
            let machine = machine(&[]);
            assert_eq!(nanos(machine.arms(0, 10)), Some(10));
            machine.wakes(2);
            machine.arms(2, 20);
            let (withdrawn, other) = against(
                &machine,
                |tree| {
                    tree.wakes(0);
                    tree.host().bases(0).timers.clear();
                    tree.idles(0)
                },
                |tree| tree.idles(2),
            );
            (nanos(withdrawn), nanos(other))
        },
    );
}

/// CPUs 0 and 2 promised the same time, and serve at that time. One of them promises the next event, or both promise it
/// if neither sees the promise of the other.
#[test]
fn two_idle_cpus_serve_at_one_moment() {
    explore(FEWER, [(true, false), (false, true), (true, true)], || {
        let machine = machine(&[]);
        machine.arms(0, 10);
        machine.arms(1, 20);
        machine.arms(2, 5);
        machine.ticks(2, 5);
        against(&machine, |tree| tree.ticks(0, 10), |tree| tree.ticks(2, 10));
        let promises = |cpu| machine.node(cpu).wakeup() != NEVER;
        (promises(0), promises(2))
    });
}

/// R53, HAZARD-2, R59: CPU 2 serves CPU 0, which wakes, idles, and arms another timer.
#[test]
fn r53_a_served_cpu_wakes_and_idles_and_arms() {
    explore(FEWER, [0, 1], || {
        let machine = machine(&[2]);
        let _listed = machine.arms(0, 10);
        against(
            &machine,
            |tree| {
                tree.wakes(0);
                let _idle = tree.idles(0);
                let _armed = tree.arms(0, 20);
            },
            |tree| tree.ticks(2, 10),
        );
        let fired = machine.fired().len();
        machine.ticks(2, 10);
        machine.ticks(2, 20);
        assert_eq!(fired + machine.fired().len(), 2);
        fired
    });
}

/// Examples 7 and 8, ORDER-5, ORDER-6, R22, R26: the tree grows while the old root's first CPU wakes. Afterwards the
/// new root knows that the CPU is awake.
#[test]
fn r26_a_root_grows_against_a_cpu_that_wakes() {
    explore(PREEMPTIONS, [true], || {
        let tree = empty_tree::<2>(4, 1, MigratorPolicy::LowestBit);
        join(&tree, 0, Presence::Idle);
        let machine: Machine = Arc::new(tree);
        against(&machine, |tree| tree.wakes(0), grows);
        let root = machine.root().unwrap();
        machine.host().group_state(root).is_active()
    });
}

/// Example 7 (A): the tree grows while the last CPU of the old root idles, with a timer. Afterwards the new root is
/// idle, and a CPU has promised to wake up for the timer.
#[test]
fn example_7_a_root_grows_against_a_cpu_that_idles() {
    explore(PREEMPTIONS, [(Some(10), false)], || {
        let tree = empty_tree::<2>(4, 1, MigratorPolicy::LowestBit);
        join(&tree, 0, Presence::Awake);
        tree.arms(0, 10);
        let machine: Machine = Arc::new(tree);
        let (cover, ()) = against(&machine, |tree| tree.idles(0), grows);
        let root = machine.root().unwrap();
        let is_active = machine.host().group_state(root).is_active();
        (nanos(cover), is_active)
    });
}

/// R27: an idle CPU arms a timer while the tree grows.
#[test]
fn r27_a_root_grows_against_a_new_timer() {
    explore(PREEMPTIONS, [Some(10)], || {
        let tree = empty_tree::<2>(4, 1, MigratorPolicy::LowestBit);
        join(&tree, 0, Presence::Idle);
        let machine: Machine = Arc::new(tree);
        let (cover, ()) = against(&machine, |tree| tree.arms(0, 10), grows);
        nanos(cover)
    });
}

/// Makes the tree grow by the second leaf and the root above both leaves.
fn grows(tree: &Tree<2>) {
    for cpu in 1..3 {
        tree.prepare(CpuId(cpu), NumaNode(0)).unwrap();
    }
    assert_eq!(tree.groups(), 3);
}
