//! Tests by random sequences of operations. The rules hold after each operation, and no timer is late in the end.

use proptest::prelude::{Strategy, prop_assert, prop_oneof, proptest};
use std::vec::Vec;

use crate::cpu::CpuId;
use crate::hierarchy::tests::host::{Tree, idle_tree_with};
use crate::hierarchy::{Leaving, MigratorPolicy, Presence};

#[derive(Clone, Copy, Debug)]
enum Operation {
    Wakes(u32),
    Idles(u32),
    Arms(u32, i64),
    /// Time advances by the second value, and the CPU has a tick.
    Ticks(u32, i64),
    Joins(u32),
    Leaves(u32),
    /// All timers of the CPU are cancelled.
    Cancels(u32),
}

fn operation(cpus: u32) -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..cpus).prop_map(Operation::Wakes),
        4 => (0..cpus).prop_map(Operation::Idles),
        4 => (0..cpus, 1..30_i64).prop_map(|(cpu, time)| Operation::Arms(cpu, time)),
        4 => (0..cpus, 0..4_i64).prop_map(|(cpu, time)| Operation::Ticks(cpu, time)),
        1 => (0..cpus).prop_map(Operation::Joins),
        1 => (0..cpus).prop_map(Operation::Leaves),
        1 => (0..cpus).prop_map(Operation::Cancels),
    ]
}

fn carry_out<const WIDTH: usize>(tree: &Tree<WIDTH>, operation: Operation, now: &mut i64) {
    match operation {
        Operation::Wakes(cpu) => tree.wakes(cpu),
        Operation::Idles(cpu) => {
            let _ = tree.idles(cpu);
        }
        Operation::Arms(cpu, time) => {
            let _ = tree.arms(cpu, *now + time);
        }
        Operation::Ticks(cpu, time) => {
            *now += time;
            tree.ticks(cpu, *now);
        }
        Operation::Joins(cpu) => tree.set_available(CpuId(cpu), Presence::Awake).unwrap(),
        Operation::Leaves(cpu) => {
            if tree.clear_available(CpuId(cpu), Leaving::Isolation).is_ok() {
                // What a host makes of it.
                let heirs = core::mem::take(&mut *tree.host().activated.lock().unwrap());
                for heir in heirs {
                    tree.wakes(heir.0);
                }
            }
        }
        Operation::Cancels(cpu) => tree.host().bases(cpu).timers.clear(),
    }
}

fn run<const WIDTH: usize>(cpus: u32, policy: MigratorPolicy, history: &[Operation]) -> bool {
    let tree = idle_tree_with::<WIDTH>(cpus, policy);
    let mut now = 0;
    for operation in history {
        carry_out(&tree, *operation, &mut now);
        tree.check_states();
        tree.check_covered();
    }
    tree.let_time_run(now, now + 31);
    let fired = tree.fired();
    fired.iter().all(|fired| fired.time <= fired.now)
}

const POLICIES: [MigratorPolicy; 2] = [MigratorPolicy::LowestBit, MigratorPolicy::Rotating];

proptest! {
    /// TI1, TI6.
    #[test]
    fn no_history_loses_a_timer(
        history in proptest::collection::vec(operation(7), 0..60),
        policy in 0..POLICIES.len(),
    ) {
        let of = |cpus: u32| -> Vec<Operation> {
            let few = |cpu: u32| cpu % cpus;
            history.iter().map(|operation| match *operation {
                Operation::Wakes(cpu) => Operation::Wakes(few(cpu)),
                Operation::Idles(cpu) => Operation::Idles(few(cpu)),
                Operation::Arms(cpu, time) => Operation::Arms(few(cpu), time),
                Operation::Ticks(cpu, time) => Operation::Ticks(few(cpu), time),
                Operation::Joins(cpu) => Operation::Joins(few(cpu)),
                Operation::Leaves(cpu) => Operation::Leaves(few(cpu)),
                Operation::Cancels(cpu) => Operation::Cancels(few(cpu)),
            }).collect()
        };
        prop_assert!(run::<2>(4, POLICIES[policy], &of(4)));
        prop_assert!(run::<2>(7, POLICIES[policy], &of(7)));
        prop_assert!(run::<4>(4, POLICIES[policy], &of(4)));
        prop_assert!(run::<3>(7, POLICIES[policy], &of(7)));
    }
}
