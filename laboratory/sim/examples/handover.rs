//! Compares the policies of [`MigratorPolicy`] under random activity, side by side.
//!
//! ```sh
//! cargo laboratory -p tickless-sim --example handover
//! cargo laboratory -p tickless-sim --example handover -- 10000 7    # ticks, seed
//! ```
//!
//! Each CPU is alternately awake and idle, for random times. An awake CPU arms global timers now and then. At each tick
//! it fires its own due timers, and the due timers of the idle CPUs for which it is the migrator. The random numbers do
//! not depend on the answers of the hierarchy, so all policies see the same activity. The output is a function of the
//! seed.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

use std::process::ExitCode;

use tickless_conformance::random::Random;
use tickless_core::hierarchy::{
    Hierarchy, HierarchyHost, Layout, MigratorPolicy, NumaNode, Presence,
};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_sim::hierarchy::{Cpus, with_cpus};

const POLICIES: [MigratorPolicy; 3] = [
    MigratorPolicy::LowestBit,
    MigratorPolicy::Rotating,
    MigratorPolicy::LeastLoaded,
];
const SIZES: [u32; 3] = [8, 64, 512];
const TICKS: i64 = 20_000;
const SEED: u64 = 1;
/// The mean number of ticks for which a CPU stays awake.
const AWAKE: u64 = 4;
/// An awake CPU arms a timer in one of this number of ticks.
const ARMS: u64 = 2;
/// The longest distance of a timer, in ticks.
const AHEAD: i64 = 50;

/// The load of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// All CPUs have the same load: each is awake half of the time.
    Half,
    /// All CPUs have the same load: each is awake a tenth of the time.
    Tenth,
    /// A quarter of the CPUs, spread over the groups, is awake nearly always, and the others hardly ever.
    Uneven,
    /// Half of the time awake, as [`Half`](Self::Half), but the last CPU of each eight sleeps through the first half of
    /// the run, and only the second half counts. It shows the treatment of a CPU without a past.
    Newcomers,
}

const ACTIVITIES: [Activity; 4] = [
    Activity::Half,
    Activity::Tenth,
    Activity::Uneven,
    Activity::Newcomers,
];

impl Activity {
    const fn name(self) -> &'static str {
        match self {
            Self::Half => "half awake",
            Self::Tenth => "a tenth awake",
            Self::Uneven => "uneven",
            Self::Newcomers => "newcomers",
        }
    }

    /// Returns the mean numbers of ticks for which `cpu` stays awake and idle.
    const fn means(self, cpu: u32) -> (u64, u64) {
        match self {
            Self::Half | Self::Newcomers => (AWAKE, AWAKE),
            Self::Tenth => (AWAKE, 9 * AWAKE),
            // The last of each four: the lowest of a group is not a busy one.
            Self::Uneven if cpu % 4 == 3 => (20 * AWAKE, AWAKE),
            Self::Uneven => (AWAKE, 20 * AWAKE),
        }
    }
}

/// Sums over one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// CPUs that each CPU served for the tree.
    served: Vec<u64>,
    /// Walks to idle and to active.
    walks: u64,
    exchanges: u64,
    longest: u64,
    publications: u64,
    handovers: u64,
    fired: u64,
}

/// A machine under its random load.
struct Bench {
    tree: Hierarchy<Cpus>,
    outcome: Outcome,
}

impl Bench {
    fn new(cpus: u32, policy: MigratorPolicy) -> Self {
        let layout = Layout::new(cpus, 1, 8);
        let tree = Hierarchy::new(with_cpus(cpus, layout), layout, policy);
        for cpu in (0..cpus).map(CpuId) {
            tree.prepare(cpu, NumaNode(0)).expect("there is room");
            tree.set_available(cpu, Presence::Awake)
                .expect("it is prepared");
        }
        Self {
            tree,
            outcome: Outcome {
                served: vec![0; cpus as usize],
                ..Outcome::default()
            },
        }
    }

    fn is_idle(&self, cpu: CpuId) -> bool {
        self.tree
            .host()
            .node(cpu)
            .is_some_and(|node| node.is_idle())
    }

    /// Lets `body` walk through the hierarchy, and counts the steps of the walk.
    fn walk(&mut self, body: impl FnOnce(&Hierarchy<Cpus>)) {
        let before = self.tree.host().timers().counts();
        body(&self.tree);
        let after = self.tree.host().timers().counts();
        let exchanges = after.exchanges - before.exchanges;
        let outcome = &mut self.outcome;
        outcome.walks += 1;
        outcome.exchanges += exchanges;
        outcome.longest = outcome.longest.max(exchanges);
        outcome.publications += after.publications - before.publications;
        outcome.handovers += after.handovers - before.handovers;
    }

    fn goes_idle(&mut self, cpu: CpuId) {
        self.walk(|tree| {
            let _cover = tree.enter_idle(cpu, tree.host().timers().first(cpu));
        });
    }

    fn wakes(&mut self, cpu: CpuId) {
        self.walk(|tree| tree.leave_idle(cpu));
    }

    /// Executes a tick, or the interrupt that an idle CPU has promised.
    fn ticks(&mut self, cpu: CpuId, now: Instant) {
        let mut budget = u32::MAX;
        let is_idle = self.is_idle(cpu);
        if !is_idle {
            self.tree.host().expire_global(cpu, now, &mut budget);
        }
        if self.tree.remote_work_due(cpu, now) {
            let pull = self.tree.serve_remote(cpu, now, &mut budget);
            let place = cpu.0 as usize;
            self.outcome.served[place] += u64::from(pull.served);
        }
        if is_idle {
            let _cover = self
                .tree
                .rearm_from_idle(cpu, self.tree.host().timers().first(cpu));
        }
    }
}

fn run(cpus: u32, policy: MigratorPolicy, activity: Activity, ticks: i64, seed: u64) -> Outcome {
    let mut bench = Bench::new(cpus, policy);
    let mut random = Random::new(seed);
    for now in 1..=ticks {
        let time = Instant::from_nanos(now);
        let is_first_half = now <= ticks / 2;
        if is_first_half && activity == Activity::Newcomers {
            bench.outcome.served.fill(0);
        }
        for cpu in (0..cpus).map(CpuId) {
            let (awake, idle) = activity.means(cpu.0);
            // The same numbers are drawn whatever the CPU does, for the sake of the comparison.
            let changes = random.bits();
            let arms = random.one_in(ARMS);
            let due = Instant::from_nanos(now + random.between(1, AHEAD));
            let mean = if bench.is_idle(cpu) { idle } else { awake };
            let sleeps_on = is_first_half && activity == Activity::Newcomers && cpu.0 % 8 == 7;
            if changes.is_multiple_of(mean) && !(sleeps_on && bench.is_idle(cpu)) {
                if bench.is_idle(cpu) {
                    bench.wakes(cpu);
                } else {
                    bench.goes_idle(cpu);
                }
            }
            if arms && !bench.is_idle(cpu) {
                bench.tree.host().timers().arm(cpu, due);
            }
        }
        for cpu in (0..cpus).map(CpuId) {
            let node = bench.tree.host().node(cpu);
            let is_due = node.is_some_and(|node| !node.is_idle() || node.wakeup() <= time);
            if is_due {
                bench.ticks(cpu, time);
            }
        }
        for cpu in (0..cpus).map(CpuId) {
            assert!(
                bench.tree.host().timers().first(cpu) > time,
                "a timer of CPU {} is late at {now}",
                cpu.0
            );
        }
    }
    bench.outcome.fired = bench.tree.host().timers().counts().fired;
    bench.outcome
}

/// Formats `part / whole` to two digits, rounded down; 0 / 0 counts as 0.
fn ratio(part: u64, whole: u64) -> String {
    let hundredths = (part * 100).checked_div(whole).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Returns the busiest CPU's work as a multiple of an even share.
fn busiest(shares: &[u64]) -> String {
    let most = shares.iter().copied().max().unwrap_or(0);
    ratio(most * shares.len() as u64, shares.iter().sum())
}

/// Returns the share of all work that the busiest eighth of the CPUs has, in percent.
fn of_top_eighth(shares: &[u64]) -> u64 {
    let mut sorted = shares.to_vec();
    sorted.sort_unstable();
    let top: u64 = sorted.iter().rev().take(shares.len().div_ceil(8)).sum();
    (top * 100)
        .checked_div(shares.iter().sum())
        .unwrap_or_default()
}

/// Returns the share of CPUs that never served another CPU, in percent.
fn never(shares: &[u64]) -> usize {
    shares.iter().filter(|share| **share == 0).count() * 100 / shares.len().max(1)
}

fn row(activity: Activity, cpus: u32, policy: MigratorPolicy, outcome: &Outcome) -> String {
    let served: u64 = outcome.served.iter().sum();
    format!(
        "| {} | {cpus} | {policy:?} | {served} | {} | {} % | {} % | {} | {} | {} | {} |",
        activity.name(),
        busiest(&outcome.served),
        of_top_eighth(&outcome.served),
        never(&outcome.served),
        ratio(outcome.handovers, outcome.walks),
        ratio(outcome.exchanges, outcome.walks),
        outcome.longest,
        ratio(outcome.publications, outcome.walks),
    )
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
    println!("{ticks} ticks, seed {seed}\n");
    println!(
        "| activity | CPUs | policy | served | busiest CPU, of an even share | busiest eighth has | never served \
         | hand-overs a walk | exchanges a walk | at most | locked visits a walk |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for activity in ACTIVITIES {
        for cpus in SIZES {
            for policy in POLICIES {
                let outcome = run(cpus, policy, activity, ticks, seed);
                println!("{}", row(activity, cpus, policy, &outcome));
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::{ACTIVITIES, POLICIES, busiest, never, of_top_eighth, ratio, run};

    #[test]
    fn the_same_seed_gives_the_same_outcome() {
        for activity in ACTIVITIES {
            for policy in POLICIES {
                let once = run(20, policy, activity, 500, 3);
                assert_eq!(once, run(20, policy, activity, 500, 3));
                assert!(once.served.iter().sum::<u64>() > 0);
            }
        }
    }

    #[test]
    fn all_policies_see_the_same_activity() {
        for activity in ACTIVITIES {
            let outcomes = POLICIES.map(|policy| run(20, policy, activity, 500, 3));
            let seen = outcomes.map(|outcome| (outcome.walks, outcome.fired));
            assert_eq!(seen[0], seen[1]);
            assert_eq!(seen[1], seen[2]);
        }
    }

    #[test]
    fn shares_are_compared_with_an_even_one() {
        assert_eq!(busiest(&[4, 0, 0, 0]), "4.00");
        assert_eq!(of_top_eighth(&[4, 0, 0, 4]), 50);
        assert_eq!(never(&[4, 0, 0, 4]), 50);
        assert_eq!(ratio(1, 0), "0.00");
        assert_eq!(ratio(2, 3), "0.66");
    }
}
