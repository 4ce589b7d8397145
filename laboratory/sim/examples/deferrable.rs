//! Deferrable timers: on a third wheel of their CPU, as global ones, or in the care of the last migrator.
//!
//! ```sh
//! cargo laboratory -p tickless-sim --example deferrable
//! cargo laboratory -p tickless-sim --example deferrable -- 60000 7    # ticks, seed
//! ```
//!
//! A deferrable timer may wait until its CPU is awake for another reason. The real hierarchy runs under random
//! activity, in ticks of a millisecond, under three policies:
//!
//! - *own wheel*: what the library does. Only the timer's own CPU can expire it, and the timer fires when this CPU is
//!   awake.
//! - *global*: the timer is an ordinary global timer. The last CPU to go idle promises to wake up for it.
//! - *last migrator*: the timer is in a second hierarchy whose promises are not kept. While any CPU is awake the
//!   migrator fires the timer in time. The last CPU to go idle does not wake up for the timer, and fires all due timers
//!   when it wakes up for another reason.
//!
//! Each CPU is alternately awake and idle, and has four periodic deferrable timers and a global one. The random numbers
//! do not depend on the policy. The output is a function of the seed; `docs/wheel.md` draws the conclusions.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::process::ExitCode;

use tickless_conformance::random::Random;
use tickless_conformance::tables::{CpuTimers, PlainLock, Tables};
use tickless_core::hierarchy::{
    Hierarchy, HierarchyHost, Layout, MigratorPolicy, NumaNode, Presence, Step, WIDTH_DEFAULT,
};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;

const SIZES: [u32; 2] = [8, 64];
/// The length of a run, in ticks of 1 ms: ten minutes.
const TICKS: i64 = 600_000;
const SEED: u64 = 1;
/// Deferrable timers of a CPU.
const DEFERRABLE: u64 = 4;
/// The periods of the deferrable timers, in ticks.
const PERIODS: (i64, i64) = (500, 5_000);
/// The period of each CPU's global timer, in ticks.
const GLOBAL_PERIOD: i64 = 10_000;

/// The treatment of deferrable timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    OwnWheel,
    Global,
    LastMigrator,
}

const POLICIES: [Policy; 3] = [Policy::OwnWheel, Policy::Global, Policy::LastMigrator];

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Self::OwnWheel => "own wheel",
            Self::Global => "global",
            Self::LastMigrator => "last migrator",
        }
    }
}

/// The load of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Activity {
    name: &'static str,
    /// The mean number of ticks for which a CPU stays awake; the next field is that for idle.
    awake: u64,
    idle: u64,
    /// True if CPU 0 is never idle.
    one_works: bool,
}

const fn activity(name: &'static str, awake: u64, idle: u64, one_works: bool) -> Activity {
    Activity {
        name,
        awake,
        idle,
        one_works,
    }
}

const ACTIVITIES: [Activity; 5] = [
    activity("half awake", 4, 4, false),
    activity("a tenth awake", 4, 36, false),
    activity("awake once in 2 s", 2, 2_000, false),
    activity("awake once in 60 s", 2, 60_000, false),
    activity("the same, and one works", 2, 60_000, true),
];

/// A timer of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    due: Instant,
    period: i64,
    is_deferrable: bool,
}

/// The timers that are found through a hierarchy.
struct Periodic {
    timers: Vec<RefCell<BTreeSet<(Timer, u64)>>>,
    /// The lateness of each firing of a deferrable timer, in ticks.
    late: RefCell<Vec<i64>>,
    exchanges: Cell<u64>,
}

impl Periodic {
    fn first(&self, cpu: CpuId) -> Instant {
        let timers = self.timers[cpu.0 as usize].borrow();
        timers
            .first()
            .map_or(Instant::FOREVER, |(timer, _)| timer.due)
    }

    /// Fires the due timers of `cpu`. Timers are periodic: the next period counts from the time of the firing.
    fn run(&self, cpu: CpuId, now: Instant) {
        let mut timers = self.timers[cpu.0 as usize].borrow_mut();
        while let Some((timer, number)) = timers.first().copied()
            && timer.due <= now
        {
            timers.pop_first();
            if timer.is_deferrable {
                let late = now.as_nanos() - timer.due.as_nanos();
                self.late.borrow_mut().push(late);
            }
            let due = Instant::from_nanos(now.as_nanos() + timer.period);
            timers.insert((Timer { due, ..timer }, number));
        }
    }
}

impl CpuTimers for Periodic {
    type Lock = PlainLock;
    type LockedBases<'a> = ();

    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32) {
        self.run(cpu, now);
        *budget -= 1;
    }

    fn lock_bases(&self, cpu: CpuId) -> ((), Instant) {
        ((), self.first(cpu))
    }

    fn activate(&self, _cpu: CpuId) {}

    fn step(&self, step: Step) {
        if let Step::State { .. } = step {
            self.exchanges.set(self.exchanges.get() + 1);
        }
    }
}

type Tree = Hierarchy<Tables<Periodic>>;

fn tree(cpus: u32) -> Tree {
    let layout = Layout::new(cpus, 1, WIDTH_DEFAULT);
    let periodic = Periodic {
        timers: (0..cpus).map(|_| RefCell::default()).collect(),
        late: RefCell::default(),
        exchanges: Cell::new(0),
    };
    let tables = Tables::with_timers(periodic, cpus, layout);
    let tree = Hierarchy::new(tables, layout, MigratorPolicy::default());
    for cpu in (0..cpus).map(CpuId) {
        tree.prepare(cpu, NumaNode(0)).expect("there is room");
        let joined = tree.set_available(cpu, Presence::Awake);
        joined.expect("it is prepared");
    }
    tree
}

/// A machine under its random load.
struct Bench {
    policy: Policy,
    /// The tree with the global timers, and with the deferrable ones if they count as global.
    kept: Tree,
    /// The tree with the other deferrable timers. No CPU wakes up for them.
    waived: Tree,
    idle: Vec<bool>,
    wakeups: u64,
}

impl Bench {
    fn new(cpus: u32, policy: Policy, random: &mut Random) -> Self {
        let bench = Self {
            policy,
            kept: tree(cpus),
            waived: tree(cpus),
            idle: vec![false; cpus as usize],
            wakeups: 0,
        };
        for cpu in 0..cpus as usize {
            for number in 0..=DEFERRABLE {
                let is_deferrable = number < DEFERRABLE;
                let drawn = random.between(PERIODS.0, PERIODS.1);
                let period = if is_deferrable { drawn } else { GLOBAL_PERIOD };
                let due = Instant::from_nanos(random.between(1, period));
                let timer = Timer {
                    due,
                    period,
                    is_deferrable,
                };
                let periodic = bench.tree_of(is_deferrable).host().timers();
                periodic.timers[cpu].borrow_mut().insert((timer, number));
            }
        }
        bench
    }

    fn tree_of(&self, is_deferrable: bool) -> &Tree {
        if is_deferrable && self.policy != Policy::Global {
            &self.waived
        } else {
            &self.kept
        }
    }

    fn change(&mut self, cpu: CpuId) {
        let idles = !self.idle[cpu.0 as usize];
        self.idle[cpu.0 as usize] = idles;
        for tree in [Some(&self.kept), self.second()].into_iter().flatten() {
            if idles {
                let _cover_of_the_waived = tree.enter_idle(cpu, tree.host().timers().first(cpu));
            } else {
                tree.leave_idle(cpu);
            }
        }
    }

    /// Returns the tree of deferrable timers, if other CPUs expire them too.
    fn second(&self) -> Option<&Tree> {
        (self.policy == Policy::LastMigrator).then_some(&self.waived)
    }

    /// Executes a tick of an awake CPU, or the interrupt that an idle CPU has promised.
    fn ticks(&mut self, cpu: CpuId, now: Instant) {
        let is_idle = self.idle[cpu.0 as usize];
        self.wakeups += u64::from(is_idle);
        for tree in [&self.kept, &self.waived] {
            tree.host().timers().run(cpu, now);
        }
        for tree in [Some(&self.kept), self.second()].into_iter().flatten() {
            let mut budget = u32::MAX;
            if tree.remote_work_due(cpu, now) {
                let _all = tree.serve_remote(cpu, now, &mut budget);
            }
            if is_idle {
                let _cover = tree.rearm_from_idle(cpu, tree.host().timers().first(cpu));
            }
        }
    }

    fn is_due(&self, cpu: CpuId, now: Instant) -> bool {
        let node = self.kept.host().node(cpu);
        !self.idle[cpu.0 as usize] || node.is_some_and(|node| node.wakeup() <= now)
    }
}

/// Sums over one run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    wakeups: u64,
    exchanges: u64,
    /// The latenesses in rising order, including those of timers that are overdue at the end.
    late: Vec<i64>,
}

fn run(cpus: u32, policy: Policy, activity: Activity, ticks: i64, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let mut bench = Bench::new(cpus, policy, &mut random);
    for now in 1..=ticks {
        let time = Instant::from_nanos(now);
        for cpu in (0..cpus).map(CpuId) {
            let is_idle = bench.idle[cpu.0 as usize];
            let mean = if is_idle {
                activity.idle
            } else {
                activity.awake
            };
            let works = activity.one_works && cpu.0 == 0;
            if random.bits().is_multiple_of(mean) && !works {
                bench.change(cpu);
            }
        }
        for cpu in (0..cpus).map(CpuId) {
            if bench.is_due(cpu, time) {
                bench.ticks(cpu, time);
            }
        }
    }
    let mut late = Vec::new();
    for tree in [&bench.kept, &bench.waived] {
        let table = tree.host().timers();
        late.append(&mut table.late.borrow_mut());
        for timers in &table.timers {
            let timers = timers.borrow();
            let waiting = timers.iter().filter(|(timer, _)| timer.is_deferrable);
            late.extend(
                waiting
                    .map(|(timer, _)| ticks - timer.due.as_nanos())
                    .filter(|late| *late > 0),
            );
        }
    }
    late.sort_unstable();
    let exchanges = [Some(&bench.kept), bench.second()].into_iter().flatten();
    Outcome {
        wakeups: bench.wakeups,
        exchanges: exchanges
            .map(|tree| tree.host().timers().exchanges.get())
            .sum(),
        late,
    }
}

/// Returns the value that `permille` thousandths of `sorted` do not exceed.
fn quantile(sorted: &[i64], permille: usize) -> i64 {
    let place = (sorted.len() * permille / 1_000).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(0)
}

/// Formats `count` in `ticks` milliseconds as a rate per second, to two digits.
fn rate(count: u64, ticks: i64) -> String {
    let hundredths = count * 100_000 / ticks.unsigned_abs();
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let ticks = arguments.next().map_or(Ok(TICKS), |text| text.parse());
    let seed = arguments.next().map_or(Ok(SEED), |text| text.parse());
    let (Ok(ticks @ 1..), Ok(seed), None) = (ticks, seed, arguments.next()) else {
        eprintln!(
            "error: write the ticks, from 1 on, and the seed: two numbers, such as {TICKS} {SEED}"
        );
        return ExitCode::from(2);
    };
    println!("{ticks} ticks of 1 ms, seed {seed}\n");
    println!(
        "| CPUs | activity | deferrable timers are | wake-ups a second | late, median | p99 | most (ms) | fired or \
         waiting | exchanges a second |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for cpus in SIZES {
        for activity in ACTIVITIES {
            for policy in POLICIES {
                let outcome = run(cpus, policy, activity, ticks, seed);
                println!(
                    "| {cpus} | {} | {} | {} | {} | {} | {} | {} | {} |",
                    activity.name,
                    policy.name(),
                    rate(outcome.wakeups, ticks),
                    quantile(&outcome.late, 500),
                    quantile(&outcome.late, 990),
                    outcome.late.last().unwrap_or(&0),
                    outcome.late.len(),
                    rate(outcome.exchanges, ticks),
                );
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::{ACTIVITIES, POLICIES, quantile, rate, run};

    #[test]
    fn the_same_seed_gives_the_same_outcome() {
        for policy in POLICIES {
            let once = run(20, policy, ACTIVITIES[2], 5_000, 3);
            assert_eq!(once, run(20, policy, ACTIVITIES[2], 5_000, 3));
            assert!(!once.late.is_empty());
        }
    }

    /// The three policies differ in which CPU wakes up, and in which timer waits.
    #[test]
    fn the_last_migrator_is_in_time_while_any_cpu_is_awake_and_wakes_up_for_nothing() {
        let [own, global, last] = POLICIES.map(|policy| run(8, policy, ACTIVITIES[3], 60_000, 3));
        assert!(own.wakeups < global.wakeups, "{own:?} {global:?}");
        assert_eq!(last.wakeups, own.wakeups);
        assert_eq!(global.late.last(), Some(&0));
        assert!(quantile(&last.late, 500) < quantile(&own.late, 500));
        let [.., busy] = POLICIES.map(|policy| run(8, policy, ACTIVITIES[4], 60_000, 3));
        assert_eq!(busy.late.last(), Some(&0));
    }

    #[test]
    fn rates_and_quantiles() {
        assert_eq!(rate(3, 2_000), "1.50");
        assert_eq!(quantile(&[1, 2, 3, 4], 500), 3);
        assert_eq!(quantile(&[], 990), 0);
    }
}
