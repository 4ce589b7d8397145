//! Tests of drawn scenarios under random policies: for all workloads, machines and policies, and with any faults, every
//! promise is kept, and two runs with the same seed are identical.
//!
//! `TICKLESS_SEEDS=N` tries N seeds, `TICKLESS_SEEDS=N..` the one seed N, as in the histories of `random.rs`.

use tickless_conformance::random::Random;
use tickless_sim::baseline::{Isolation, MigratorRule, Reads, Rearm, Soft, Target, Tree};
use tickless_sim::draw::Draft;
use tickless_sim::{FaultKind, Policy, Scenario, run_twice};

/// The number of seeds of an ordinary run.
const SEEDS: u64 = 60;

fn pick<T: Copy, const N: usize>(random: &mut Random, from: [T; N]) -> T {
    from[random.index(N)]
}

/// Returns random policies that drawn scenarios do not have, and the others as `drawn`.
fn policy(drawn: Policy, random: &mut Random) -> Policy {
    let mut one_in = |times: u64| random.one_in(times);
    Policy {
        target: if one_in(5) {
            Target::Search
        } else {
            Target::Local
        },
        isolation: if one_in(4) {
            Isolation::TakePart
        } else {
            Isolation::Exclude
        },
        tree: pick(random, [Tree::Linked, Tree::Linked, Tree::Plain]),
        handover: pick(random, [MigratorRule::LowestBit, MigratorRule::Rotating]),
        rearm: pick(
            random,
            [
                Rearm::Deferred,
                Rearm::Deferred,
                Rearm::Immediate,
                Rearm::Eager,
            ],
        ),
        soft: pick(
            random,
            [
                Soft::FirstDue,
                Soft::FirstDue,
                Soft::Unconditional,
                Soft::Bitmap,
            ],
        ),
        reads: Reads::Direct,
        ..drawn
    }
}

fn scenario(seed: u64) -> (Scenario, String) {
    let mut random = Random::new(seed);
    let text = Draft::of(seed).to_toml();
    let read = Scenario::from_toml(&text, "random.toml");
    let mut scenario = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
    scenario.policy = policy(scenario.policy, &mut random);
    scenario.draws_faults |= random.one_in(2);
    (scenario, text)
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(wanted) = std::env::var("TICKLESS_SEEDS") else {
        return 0..SEEDS;
    };
    let (count, seed) = (wanted.parse(), wanted.trim_end_matches("..").parse::<u64>());
    match (count, seed) {
        (Ok(count), _) => 0..count,
        (_, Ok(seed)) => seed..seed + 1,
        _ => panic!("TICKLESS_SEEDS is a count like 1000 or a seed like 17.., not {wanted:?}"),
    }
}

#[test]
fn every_promise_is_kept_in_random_worlds() {
    let (mut fires, mut remote, mut searched, mut broadcasts) = (0, 0, 0, 0);
    let mut faults = std::collections::BTreeMap::<_, u64>::new();
    for seed in seeds() {
        let (scenario, text) = scenario(seed);
        let outcome = run_twice(&scenario, seed);
        assert!(
            outcome.holds(),
            "seed {seed} fails; again with TICKLESS_SEEDS={seed}..\n{:?}\n{text}\n{:?}\n{:?}\n{:?}\n{:#?}",
            outcome.broken,
            scenario.policy,
            outcome.faults,
            outcome.fault_counts,
            outcome.violations
        );
        fires += outcome.counts.coarse_fires;
        remote += outcome.counts.remote_fires;
        broadcasts += outcome.counts.broadcasts;
        searched += u64::from(scenario.policy.target == Target::Search);
        for (kind, count) in outcome.fault_counts {
            *faults.entry(kind).or_default() += count;
        }
    }
    if seeds().end > 1 && seeds().start == 0 {
        // Worlds in which nothing happens prove nothing.
        assert!(
            fires > 1_000 && remote > 100 && searched > 0 && broadcasts > 1_000,
            "{fires} {remote} {searched} {broadcasts}"
        );
        let happened = |kind: &FaultKind| faults.get(kind.name()).is_some_and(|count| *count > 0);
        assert!(FaultKind::ALL.iter().all(happened), "{faults:?}");
    }
}
