//! Random schedules of random programs, under shuttle (spec C-C.2).
//!
//! At each atomic operation and at each lock, shuttle may switch to another CPU. Each CPU has a program of up to three
//! operations. After all programs the test checks STATE-1 to 4 and PULL-2. Then the test lets time run, and each timer
//! of an idle CPU has to fire at its time.
//!
//! Over a million schedules, of six cases:
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" TICKLESS_FUZZ_SCHEDULES=200000 cargo test -p tickless-core --lib --profile loom \
//!     --target-dir target/shuttle fuzz:: -- --nocapture
//! ```
//!
//! The variable `TICKLESS_FUZZ_SCHEDULES` is the number of random schedules for each of the six cases; without the
//! variable it is [`FEW`]. Schedule `k` has the seed `TICKLESS_FUZZ_SEED + k`. A failure prints its seed, with which
//! the failed schedule can be run alone.
//!
//! # Limits
//!
//! Memory is sequentially consistent here; the cases of weak memory are in `model`.

use core::fmt::Write as _;
use std::io::Write as _;
use std::string::String;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;

use shuttle::rand::RngCore;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, Runner, thread};

use super::host::{Tree, at, empty_tree, join};
use crate::cpu::CpuId;
use crate::hierarchy::{Leaving, MigratorPolicy, NumaNode, Presence};

/// The default number of schedules of each case. All cases together take seconds.
const FEW: u64 = 2_000;
/// The time while the programs run. Timers are due at this time, or up to [`AHEAD`] later.
const NOW: i64 = 10;
const AHEAD: u64 = 5;
/// The NUMA node of each CPU in cases with two nodes. The second node begins with the third CPU, and both nodes have
/// the same size.
const NODE_OF: [u32; 8] = [0, 0, 1, 0, 1, 0, 1, 1];
/// The largest number of operations of one CPU.
const OPERATIONS_MAX: u64 = 3;

/// A scheduler that lets CPUs run in bursts. A running CPU continues for a while, and the mean length of the bursts is
/// random for each schedule. Uniformly random schedules would hardly ever let one CPU go idle completely between two
/// steps of another CPU.
struct Bursts {
    seed: u64,
    end: u64,
    random: u64,
    /// The number of random draws, out of sixteen, after which the running CPU continues.
    stays: u64,
}

/// Returns the next random number of the generator SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

impl Scheduler for Bursts {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.seed == self.end {
            return None;
        }
        // Relaxed: read by the thread that writes it.
        RUNS.with(|seed| seed.store(self.seed, Ordering::Relaxed));
        self.random = self.seed;
        self.stays = [0, 8, 13, 15][usize::try_from(self.next_u64() % 4).expect("small")];
        let schedule = Schedule::new(self.seed);
        self.seed += 1;
        Some(schedule)
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let drawn = self.next_u64();
        if let Some(current) = current
            && !is_yielding
            && drawn >> 32 & 15 < self.stays
            && runnable.iter().any(|task| task.id() == current)
        {
            return Some(current);
        }
        let among = u64::try_from(runnable.len()).expect("few");
        let chosen = usize::try_from(drawn % among).expect("few");
        Some(runnable[chosen].id())
    }

    fn next_u64(&mut self) -> u64 {
        draw(&mut self.random)
    }
}

std::thread_local! {
    /// The seed of the running schedule.
    static RUNS: AtomicU64 = const { AtomicU64::new(0) };
}

/// Returns a number below `end` that is random for this schedule.
fn below(end: u64) -> u64 {
    shuttle::rand::thread_rng().next_u64() % end
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// Runs `body` once for each schedule, and prints a summary. `name` is the name of the test.
fn fuzz(name: &str, body: impl Fn() + Send + Sync + 'static) {
    let schedules = number("TICKLESS_FUZZ_SCHEDULES", FEW);
    let seed = number("TICKLESS_FUZZ_SEED", 1);
    let scheduler = Bursts {
        seed,
        end: seed + schedules,
        random: 0,
        stays: 0,
    };
    let mut config = Config::new();
    config.failure_persistence = shuttle::FailurePersistence::None;
    let runner = Runner::new(scheduler, config);
    let run = std::panic::AssertUnwindSafe(|| runner.run(body));
    let outcome = std::panic::catch_unwind(run);
    let mut line = String::new();
    match outcome {
        Ok(ran) => writeln!(
            line,
            "{name}: {ran} schedules from seed {seed} on, no violation"
        ),
        Err(_) => {
            let failed = RUNS.with(|seed| seed.load(Ordering::Relaxed));
            writeln!(
                line,
                "{name}: violated by schedule {} of seed {seed}; to see it alone: \
                 TICKLESS_FUZZ_SCHEDULES=1 TICKLESS_FUZZ_SEED={failed} and this test",
                failed - seed + 1
            )
        }
    }
    .expect("a string takes all");
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("the receiver lives");
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Operation of a CPU's program.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Wakes,
    Idles,
    Arms(i64),
    Ticks,
    /// The CPU leaves the tree, or joins it again.
    Changes,
    /// The CPU prepares a new CPU, for which the tree may grow.
    Prepares,
}

/// Returns a random operation of spec C-C.2.
fn operation_of_a_member() -> Operation {
    operation(4)
}

/// Returns a random operation. `kinds` is 4 for the operations of spec C-C.2, and 6 for all operations.
fn operation(kinds: u64) -> Operation {
    match below(kinds) {
        0 => Operation::Wakes,
        1 => Operation::Idles,
        2 => Operation::Arms(NOW + i64::try_from(below(AHEAD)).expect("small")),
        3 => Operation::Ticks,
        4 => Operation::Changes,
        _ => Operation::Prepares,
    }
}

/// The machine of a test: the tree, and the thread of each CPU.
struct Machine<const WIDTH: usize> {
    tree: Tree<WIDTH>,
    cpus: Vec<shuttle::sync::Mutex<()>>,
    /// The number of the next CPU that is not prepared yet.
    unknown: AtomicU64,
    nodes: u32,
}

impl<const WIDTH: usize> Machine<WIDTH> {
    fn carry_out(&self, cpu: u32, operation: Operation) {
        let executes = self.cpus[cpu as usize].lock().expect("no section panics");
        let mut newcomer = None;
        match operation {
            Operation::Wakes => self.tree.wakes(cpu),
            Operation::Idles => {
                let _ = self.tree.idles(cpu);
            }
            Operation::Arms(time) => {
                let _ = self.tree.arms(cpu, time);
            }
            Operation::Ticks => self.tree.ticks(cpu, NOW),
            Operation::Changes => {
                if self.tree.node(cpu).is_available() {
                    let _ = self.tree.clear_available(CpuId(cpu), Leaving::Isolation);
                } else {
                    let presence = if self.tree.node(cpu).is_idle() {
                        Presence::Idle
                    } else {
                        Presence::Awake
                    };
                    self.tree
                        .set_available(CpuId(cpu), presence)
                        .expect("it is prepared");
                    // As after an interrupt: the timers that it has are the tree's again.
                    if presence == Presence::Idle {
                        let _ = self.tree.idles(cpu);
                    }
                }
            }
            Operation::Prepares => newcomer = self.prepare_next(),
        }
        drop(executes);
        let heirs = core::mem::take(&mut *self.tree.host().activated.lock().expect("whole"));
        for heir in heirs {
            let _executes = self.cpus[heir.0 as usize]
                .lock()
                .expect("no section panics");
            self.tree.wakes(heir.0);
        }
        if let Some(newcomer) = newcomer {
            self.carry_out(newcomer, operation_of_a_member());
        }
    }

    /// Prepares one more CPU, which is idle at first. Returns its number.
    fn prepare_next(&self) -> Option<u32> {
        // Relaxed: drawing a number is all.
        let next = self.unknown.fetch_add(1, Ordering::Relaxed);
        let next = u32::try_from(next).expect("few");
        if !self.tree.host().node_exists(next) {
            return None;
        }
        let numa = NumaNode(NODE_OF[next as usize] % self.nodes);
        let cpu = CpuId(next);
        self.tree.prepare(cpu, numa).expect("there is room");
        self.tree
            .set_available(cpu, Presence::Idle)
            .expect("it is prepared");
        Some(next)
    }
}

/// Runs one schedule. At first `members` of `cpus` CPUs are prepared, all of one NUMA node, and each of them gets a
/// program.
fn schedule<const WIDTH: usize>(cpus: u32, nodes: u32, members: u32, kinds: u64) {
    let machine = Arc::new(Machine {
        tree: empty_tree::<WIDTH>(cpus, nodes, MigratorPolicy::LowestBit),
        cpus: (0..cpus).map(|_| shuttle::sync::Mutex::new(())).collect(),
        unknown: AtomicU64::new(u64::from(members)),
        nodes,
    });
    for cpu in 0..members {
        join(&machine.tree, cpu, Presence::Awake);
        if below(2) == 0 {
            machine.carry_out(
                cpu,
                Operation::Arms(NOW + i64::try_from(below(AHEAD)).expect("small")),
            );
        }
    }
    // Half of them sleep at first.
    for cpu in 0..members {
        if below(2) == 0 {
            machine.carry_out(cpu, Operation::Idles);
        }
    }
    let mut threads = Vec::new();
    for cpu in 0..members {
        let program: Vec<Operation> = (0..below(OPERATIONS_MAX + 1))
            .map(|_| operation(kinds))
            .collect();
        if !program.is_empty() {
            let machine = Arc::clone(&machine);
            threads.push(thread::spawn(move || {
                for operation in program {
                    machine.carry_out(cpu, operation);
                }
            }));
        }
    }
    for thread in threads {
        thread.join().expect("a panic ends the schedule");
    }
    machine.tree.check_states();
    machine.tree.check_covered();
    machine
        .tree
        .let_time_run(NOW, NOW + i64::try_from(AHEAD).expect("small"));
    let fired = machine.tree.fired();
    assert!(fired.iter().all(|fired| at(fired.time) <= at(fired.now)));
}

#[test]
fn two_by_two() {
    fuzz("two_by_two", || schedule::<2>(4, 1, 4, 4));
}

#[test]
fn two_by_three() {
    fuzz("two_by_three", || schedule::<2>(8, 1, 8, 4));
}

#[test]
fn four_by_one() {
    fuzz("four_by_one", || schedule::<4>(4, 1, 4, 4));
}

#[test]
fn three_by_two() {
    fuzz("three_by_two", || schedule::<3>(9, 1, 9, 4));
}

/// CPUs leave and join again while a tree grows. Spec C-C.2 did not model this.
#[test]
fn members_that_change_and_a_tree_that_grows() {
    fuzz("members_that_change_and_a_tree_that_grows", || {
        schedule::<2>(8, 1, 3, 6)
    });
}

/// A tree grows while the first new CPUs are of another NUMA node. Groups with one child connect the old root with the
/// new root.
#[test]
fn a_tree_that_grows_across_nodes() {
    fuzz("a_tree_that_grows_across_nodes", || {
        schedule::<2>(8, 2, 2, 6)
    });
}
