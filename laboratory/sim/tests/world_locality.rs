//! Tests of machines whose exact timers are queued on a CPU that is awake.

mod support;

use tickless_sim::baseline::Migration;
use tickless_sim::{Outcome, Scenario, run_twice};

use support::read;

/// Makes a scenario of tasks that sleep by exact timers on CPUs 4 to 7, which are `special`, together with a CPU that
/// computes.
fn sleepers(special: &str, busy: &str) -> Scenario {
    read(&format!(
        "name = \"locality\"\nprofile = \"skl-112\"\ncpus = 8\nduration = \"200 ms\"\n{special}\n\n\
         [[workload]]\nkind = \"cyclictest\"\ncpus = \"4-7\"\nperiod = \"5 ms\"\n\n\
         [[workload]]\nkind = \"busy\"\ncpus = \"{busy}\"\n"
    ))
}

/// Runs the scenario first without migration of timers, then with migration.
fn both(mut scenario: Scenario) -> [Outcome; 2] {
    [Migration::Off, Migration::On].map(|migration| {
        scenario.policy.migration = migration;
        let outcome = run_twice(&scenario, 1);
        support::holds(&outcome);
        outcome
    })
}

/// Returns the number of timer interrupts of the CPUs on which tasks sleep, and of the CPU that computes.
fn interrupts(outcome: &Outcome) -> [u64; 2] {
    let of = |cpu: u32| {
        let group = outcome
            .groups
            .iter()
            .find(|group| group.cpus.contains(&cpu));
        group.expect("each CPU has one").tally.interrupts
    };
    [of(4), of(1)]
}

#[test]
fn timers_of_isolated_cpus_go_to_one_that_keeps_house_and_is_awake() {
    let [stay, go] = both(sleepers("isolated = \"4-7\"", "1"));
    assert_eq!(stay.counts.exact_pushed, 0);
    assert!(go.counts.exact_pushed > 140, "{:?}", go.counts);
    let ([before, _], [after, there]) = (interrupts(&stay), interrupts(&go));
    assert!(after * 3 < before, "{before} {after}");
    assert!(there > interrupts(&stay)[1] + 100, "{there}");
}

#[test]
fn timers_of_a_cpu_whose_tick_is_stopped_go_to_one_that_is_awake() {
    let [stay, go] = both(sleepers("tickless = \"4-7\"", "1"));
    assert_eq!(stay.counts.exact_pushed, 0);
    assert!(go.counts.exact_pushed > 140, "{:?}", go.counts);
}

#[test]
fn timers_of_a_cpu_that_works_and_ticks_stay() {
    let [stay, go] = both(sleepers("", "1"));
    assert_eq!(go.counts.exact_pushed, 0);
    let fired = |outcome: &Outcome| outcome.counts.exact_fires - outcome.counts.ticks;
    assert_eq!(fired(&stay), fired(&go));
}
