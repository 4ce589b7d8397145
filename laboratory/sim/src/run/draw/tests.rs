use super::{Draft, SHORTEST, Where};
use crate::promise::Promise;
use crate::promise::canary::Canary;
use crate::run::runner::run;
use crate::run::scenario::Scenario;
use std::collections::BTreeSet;

fn scenario(draft: &Draft) -> Scenario {
    let text = draft.to_toml();
    Scenario::from_toml(&text, "draw.toml").unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

#[test]
fn every_seed_draws_a_scenario_and_always_the_same() {
    let mut seen = BTreeSet::new();
    let (mut profiles, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..500 {
        let draft = Draft::of(seed);
        assert_eq!(draft, Draft::of(seed));
        let scenario = scenario(&draft);
        assert_eq!(scenario.workloads.len(), draft.workloads());
        assert_eq!(
            (scenario.cpus, scenario.duration),
            (draft.cpus(), draft.duration())
        );
        let library = crate::baseline::Policy {
            scheduler: scenario.policy.scheduler,
            hrtick: scenario.policy.hrtick,
            deadline_hrtick: scenario.policy.deadline_hrtick,
            balance: scenario.policy.balance,
            placement: scenario.policy.placement,
            governor: scenario.policy.governor,
            migration: scenario.policy.migration,
            ..Default::default()
        };
        assert_eq!(
            scenario.policy, library,
            "nothing of the library is taken away"
        );
        assert!(!scenario.isolated[0], "a CPU keeps house");
        profiles.insert(draft.profile);
        for part in &draft.parts {
            kinds.insert(part.fields.lines().next().map(str::to_owned));
        }
        // Without the comment and the name, which have the seed.
        seen.insert(draft.to_toml().lines().skip(2).collect::<String>());
    }
    assert!(seen.len() > 490, "{} are different", seen.len());
    assert_eq!((profiles.len(), kinds.len()), (4, 15));
}

#[test]
fn every_class_is_drawn_often_enough() {
    const SEEDS: u64 = 4_000;
    let mut drawn = std::collections::BTreeMap::<_, u64>::new();
    for class in (0..SEEDS).flat_map(|seed| Draft::of(seed).classes()) {
        *drawn.entry(class).or_default() += 1;
    }
    for (class, count) in &drawn {
        assert!(count * 50 >= SEEDS, "{class:?}: {count} of {SEEDS}");
    }
    let of = |what| drawn.keys().filter(|class| class.what == what).count();
    assert_eq!(
        [
            of("device"),
            of("device, what stands in"),
            of("counter"),
            of("workload")
        ],
        [6, 18, 6, 15]
    );
    // As a scenario, and not as it is told.
    let mut devices = BTreeSet::new();
    for seed in 0..200 {
        let (draft, mut pair) = (Draft::of(seed), Vec::new());
        let scenario = scenario(&draft);
        pair.extend(scenario.device.map(|device| format!("{:?}", device.kind)));
        pair.push(format!("{:?}", scenario.profile.broadcast));
        pair.push(format!("{}", scenario.draws_faults));
        devices.insert(pair);
    }
    assert!(devices.len() >= 30, "{devices:?}");
}

#[test]
fn a_failure_is_found_and_shrinks_to_what_it_needs() {
    let canary = Canary(Promise::Covered);
    let fails = |draft: &Draft| {
        let mut scenario = scenario(draft);
        scenario.canary = Some(canary);
        run(&scenario, draft.seed).broken.contains_key(&canary.0)
    };
    let failing = (0..200)
        .map(Draft::of)
        .find(|draft| draft.cpus() >= 8 && draft.workloads() >= 3 && fails(draft));
    let failing = failing.expect("one of so many shows it");
    let least = failing.shrunk(fails);
    assert!(fails(&least), "it is still there");
    assert_eq!(least.workloads(), 1, "{}", least.to_toml());
    assert!(least.cpus() < failing.cpus() || least.duration() < failing.duration());
    assert!(least.policy.lines().count() < failing.policy.lines().count());
    assert!(
        least.smaller().iter().all(|less| !fails(less)),
        "nothing more can go"
    );
    assert_eq!(least, failing.shrunk(fails), "the same each time");
}

#[test]
fn shrinking_ends_where_nothing_is_left() {
    for seed in 0..50 {
        let least = Draft::of(seed).shrunk(|_| true);
        assert_eq!(
            (least.workloads(), least.cpus(), least.duration()),
            (0, 1, SHORTEST)
        );
        let mut steps = 0;
        let same = Draft::of(seed).shrunk(|_| {
            steps += 1;
            false
        });
        assert_eq!(same, Draft::of(seed));
        assert_eq!(steps, same.smaller().len(), "each once");
    }
}

#[test]
fn workloads_stay_on_a_machine_that_gets_smaller() {
    let mut draft = Draft::of(1);
    draft.parts.truncate(1);
    draft.isolated = u64::MAX;
    for place in [
        Where::All,
        Where::Housekeeping,
        Where::Isolated,
        Where::One(63),
        Where::Half,
    ] {
        draft.parts[0].place = place;
        for cpus in [1, 2, 3, 4, 8] {
            draft.cpus = cpus;
            let placed = scenario(&draft).workloads;
            let is_gone = place == Where::Isolated && cpus == 1;
            assert_eq!(placed.is_empty(), is_gone, "{place:?} of {cpus}");
            assert!(placed.iter().all(|placed| !placed.cpus.is_empty()));
        }
    }
}
