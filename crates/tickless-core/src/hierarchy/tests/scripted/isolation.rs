//! Tests of the set of isolated CPUs (spec C-5.4).

use std::vec::Vec;

use crate::cpu::CpuId;
use crate::hierarchy::tests::host::{Tree, empty_tree, idle_tree, join};
use crate::hierarchy::{Change, IsolationHost, Leaving, MigratorPolicy, Presence, Refused, Step};

use Call::{Ask, Wait};
use Change::{Join, Leave};

/// Calls that reached a host, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Ask(u32, Change),
    Wait(u32, Change),
}

/// A host in which a CPU carries out a request only when another CPU waits for it.
struct Crew<'t> {
    tree: &'t Tree<4>,
    isolated: &'t [u32],
    offline: &'t [u32],
    asked: Vec<u32>,
    calls: Vec<Call>,
}

impl IsolationHost for Crew<'_> {
    fn is_online(&self, cpu: CpuId) -> bool {
        !self.offline.contains(&cpu.0)
    }

    fn is_to_be_isolated(&self, cpu: CpuId) -> bool {
        self.isolated.contains(&cpu.0)
    }

    fn ask(&mut self, cpu: CpuId, change: Change) {
        self.asked.push(cpu.0);
        self.calls.push(Ask(cpu.0, change));
    }

    fn wait(&mut self, cpu: CpuId, change: Change) -> Result<(), Refused> {
        if !self.asked.contains(&cpu.0) {
            return Ok(());
        }
        self.calls.push(Wait(cpu.0, change));
        match change {
            Join => self.tree.set_available(cpu, Presence::Awake),
            Leave => self.tree.clear_available(cpu, Leaving::Isolation),
        }
    }
}

fn crew<'t>(tree: &'t Tree<4>, isolated: &'t [u32], offline: &'t [u32]) -> Crew<'t> {
    Crew {
        tree,
        isolated,
        offline,
        asked: Vec::new(),
        calls: Vec::new(),
    }
}

fn taking_part(tree: &Tree<4>) -> Vec<u32> {
    let cpus = 0..8;
    cpus.filter(|cpu| tree.node(*cpu).is_available()).collect()
}

/// Spec C-5.4: the change ends isolations, waits for each CPU, then isolates CPUs, and waits for each CPU.
#[test]
fn cpus_join_and_are_waited_for_before_others_leave() {
    let tree = idle_tree::<4>(8);
    let mut first = crew(&tree, &[0, 1, 2, 3], &[]);
    assert_eq!(tree.isolate_set(&mut first), Ok(4));
    assert_eq!(taking_part(&tree), [4, 5, 6, 7]);
    let mut second = crew(&tree, &[2, 3, 4, 5, 6, 7], &[]);
    tree.host().steps.borrow_mut().clear();
    assert_eq!(tree.isolate_set(&mut second), Ok(6));
    assert_eq!(taking_part(&tree), [0, 1]);
    let expected = [
        &[Ask(0, Join), Ask(1, Join), Wait(0, Join), Wait(1, Join)][..],
        &[Ask(4, Leave), Ask(5, Leave), Ask(6, Leave), Ask(7, Leave)],
        &[
            Wait(4, Leave),
            Wait(5, Leave),
            Wait(6, Leave),
            Wait(7, Leave),
        ],
    ];
    assert_eq!(second.calls, expected.concat());
    let changes = tree.host().steps.borrow();
    let fewest = changes.iter().scan(4, |left, step| {
        match step {
            Step::Available {
                is_available: true, ..
            } => *left += 1,
            Step::Available { .. } => *left -= 1,
            _ => {}
        }
        Some(*left)
    });
    assert_eq!(fewest.min(), Some(2), "never fewer than at the end");
    drop(changes);
    tree.check_all();
}

/// Two halves of the tree exchange their parts in the set. A CPU that isolated first would find that the last available
/// CPU cannot leave.
#[test]
fn two_halves_of_a_tree_change_places() {
    let tree = idle_tree::<4>(2);
    for isolated in [&[0][..], &[1], &[0], &[]] {
        let mut crew = crew(&tree, isolated, &[]);
        assert!(tree.isolate_set(&mut crew).is_ok(), "{isolated:?}");
        for cpu in 0..2 {
            assert_eq!(tree.node(cpu).is_available(), !isolated.contains(&cpu));
        }
        tree.check_all();
    }
}

#[test]
fn a_set_that_leaves_no_cpu_is_refused_before_anything_changes() {
    let tree = idle_tree::<4>(8);
    let mut some = crew(&tree, &[7], &[]);
    assert_eq!(tree.isolate_set(&mut some), Ok(1));
    // CPU 6 is not there to look after anybody.
    let all_online = [0, 1, 2, 3, 4, 5, 7];
    let mut all = crew(&tree, &all_online, &[6]);
    assert_eq!(tree.isolate_set(&mut all), Err(Refused::LastAvailable));
    assert_eq!(all.calls, []);
    assert_eq!(taking_part(&tree), [0, 1, 2, 3, 4, 5, 6]);
    tree.check_all();
}

#[test]
fn a_set_says_nothing_of_foreign_threads_and_of_cpus_that_are_offline_or_unknown() {
    let tree = empty_tree::<4>(8, 1, MigratorPolicy::LowestBit);
    for cpu in [0, 1, 3] {
        join(&tree, cpu, Presence::Idle);
    }
    join(&tree, 2, Presence::Foreign);
    tree.clear_available(CpuId(3), Leaving::Offline).unwrap();
    let mut most = crew(&tree, &[1, 2, 3, 4, 5, 6, 7], &[3]);
    assert_eq!(tree.isolate_set(&mut most), Ok(1));
    assert_eq!(taking_part(&tree), [0, 2]);
    let mut none = crew(&tree, &[], &[3]);
    assert_eq!(tree.isolate_set(&mut none), Ok(1));
    assert_eq!(taking_part(&tree), [0, 1, 2]);
    let mut only_foreign_threads_stay = crew(&tree, &[0, 1], &[3]);
    let refused = tree.isolate_set(&mut only_foreign_threads_stay);
    assert_eq!(refused, Err(Refused::LastAvailable));
    tree.check_all();
}

#[test]
fn a_set_that_is_in_force_asks_no_cpu() {
    let tree = idle_tree::<4>(8);
    for changed in [Ok(2), Ok(0)] {
        let mut crew = crew(&tree, &[1, 5], &[]);
        assert_eq!(tree.isolate_set(&mut crew), changed);
        assert_eq!(crew.calls.is_empty(), changed == Ok(0));
    }
}
