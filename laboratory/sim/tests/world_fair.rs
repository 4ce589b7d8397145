//! Tests of machines whose tasks share CPUs fairly, in slices that end precisely or at ticks.

mod support;

use tickless_sim::baseline::{Balance, Governor, Hrtick, Placement, Rearm};
use tickless_sim::{Canary, Outcome, Picos, Promise, Scenario, run, run_twice};

use support::read;

fn fair(head: &str, workloads: &str) -> Scenario {
    let text = format!(
        "name = \"fair\"\nprofile = \"skl-112\"\n{head}\n\n[policy]\nscheduler = \"fair\"\n\n{workloads}\n"
    );
    read(&text)
}

fn kept(scenario: &Scenario) -> Outcome {
    let outcome = run(scenario, 1);
    support::holds(&outcome);
    outcome
}

fn busy(cpu: u32, weight: u32) -> String {
    format!("[[workload]]\nkind = \"busy\"\ncpus = \"{cpu}\"\nweight = {weight}\n\n")
}

/// Returns the largest difference of a task's CPU time from its entitlement, in thousandths.
fn unfairness(outcome: &Outcome) -> u64 {
    let weights: u64 = outcome.shares.iter().map(|one| one.weight).sum();
    let time: u64 = outcome.shares.iter().map(|one| one.had.0).sum();
    let off = |one: &tickless_sim::Share| {
        let entitled = u128::from(time) * u128::from(one.weight) / u128::from(weights);
        let had = u128::from(one.had.0);
        u64::try_from(had.abs_diff(entitled) * 1_000 / entitled).unwrap_or(u64::MAX)
    };
    outcome.shares.iter().map(off).max().unwrap_or(u64::MAX)
}

#[test]
fn each_weight_gets_its_share_with_ticks_that_are_precise_and_without() {
    let weights: String = [1, 2, 3, 5].map(|weight| busy(1, weight)).concat();
    for hrtick in [Hrtick::On, Hrtick::Off] {
        let mut scenario = fair("cpus = 2\nduration = \"2 s\"\nslice = \"3 ms\"", &weights);
        scenario.policy.hrtick = hrtick;
        let outcome = kept(&scenario);
        assert_eq!(outcome.shares.len(), 4);
        assert!(
            unfairness(&outcome) <= 20,
            "{hrtick:?} {:?}",
            outcome.shares
        );
        assert!(outcome.counts.switches > 300, "{:?}", outcome.counts);
    }
}

/// A periodic task runs together with eight tasks that compute. Of a thousand waits of the periodic task, the 999th is
/// at most one request of those tasks, plus an interrupt and a switch.
#[test]
fn a_periodic_task_waits_for_one_request_at_most() {
    let crowd = busy(1, 1).repeat(8);
    let late = |request: &str, hrtick| {
        let periodic = format!(
            "[[workload]]\nkind = \"cyclictest\"\ncpus = \"1\"\nperiod = \"200 us\"\nrequest = \"{request}\"\n"
        );
        let mut scenario = fair(
            "cpus = 2\nduration = \"4 s\"\nslice = \"1 ms\"\ntick = \"4 ms\"\nlate_max = \"20 ms\"",
            &format!("{crowd}{periodic}"),
        );
        scenario.policy.hrtick = hrtick;
        let outcome = kept(&scenario);
        let latency = outcome.series("latency").expect("it runs");
        assert!(latency.count() > 200, "{latency:?}");
        [500, 999].map(|permille| latency.percentile(permille))
    };
    let micros = Picos::from_micros;
    let [usual, worst] = late("200 us", Hrtick::On);
    assert!(
        usual < micros(20) && worst <= micros(1_050),
        "{usual} {worst}"
    );
    let [_, worst] = late("1 ms", Hrtick::On);
    assert!(worst <= micros(1_050), "{worst}");
    // At ticks it waits for those.
    let [_, worst] = late("1 ms", Hrtick::Off);
    assert!(worst > micros(1_100), "{worst}");
}

fn hackbench(head: &str) -> Scenario {
    let mut scenario = fair(
        &format!("cpus = 4\nduration = \"40 ms\"\nslice = \"3 ms\"\ntick = \"4 ms\"\n{head}"),
        "[[workload]]\nkind = \"hackbench\"\ncpus = \"all\"\ngroups = 2\ntasks = 6\nmessages = 60\nsize = 8\n\
         room = 256\nwork = \"500 ns\"\n",
    );
    scenario.policy.balance = Balance::Idle;
    scenario.policy.governor = Governor::History;
    scenario
}

#[test]
fn tasks_that_talk_share_fairly_under_every_policy() {
    for hrtick in [Hrtick::On, Hrtick::Unfiltered, Hrtick::Off] {
        for rearm in [Rearm::Deferred, Rearm::Eager, Rearm::Immediate] {
            for balance in [Balance::Idle, Balance::None] {
                let mut scenario = hackbench("");
                scenario.policy.hrtick = hrtick;
                scenario.policy.rearm = rearm;
                scenario.policy.balance = balance;
                let outcome = run_twice(&scenario, 1);
                support::holds(&outcome);
                let finish = outcome.series("finish").expect("a group got everything");
                assert_eq!(finish.count(), 2);
                assert_eq!(outcome.counts.pulled > 0, balance == Balance::Idle);
            }
        }
    }
}

#[test]
fn what_breaks_the_bound_or_a_slice_is_caught() {
    for promise in [Promise::LagBounded, Promise::SliceEnds] {
        let mut scenario = fair(
            "cpus = 2\nduration = \"200 ms\"\nslice = \"1 ms\"\ntick = \"4 ms\"",
            &[busy(1, 1), busy(1, 7)].concat(),
        );
        kept(&scenario);
        scenario.canary = Some(Canary(promise));
        let outcome = run(&scenario, 1);
        assert!(
            outcome.broken.contains_key(&promise),
            "{promise:?} {:?}",
            outcome.shares
        );
    }
}

/// Two servers run on a CPU that sleeps shortly between packets, with its device armed for a slice that is over.
#[test]
fn a_cpu_that_sleeps_shortly_leaves_its_device_and_is_woken_once_for_it() {
    let server = "[[workload]]\nkind = \"network\"\ncpus = \"1\"\nconnections = 4\ngap = \"300 us\"\nwork = \"60 us\"\n\
                  timeout = \"40 ms\"\ntimeout_max = \"80 ms\"\ncancelled = 100\n\n";
    let mut scenario = fair(
        "cpus = 2\nduration = \"4 s\"\nslice = \"700 us\"\ntick = \"4 ms\"",
        &server.repeat(2),
    );
    let known = kept(&scenario).counts;
    assert_eq!(known.lazy_wakes, 0, "the next event is far");
    scenario.policy.governor = Governor::History;
    let lazy = kept(&scenario).counts;
    assert!(lazy.lazy_wakes > 3, "{lazy:?}");
    assert!(
        lazy.lazy_wakes * 3 < known.device_writes - lazy.device_writes,
        "{known:?}\n{lazy:?}"
    );
}

/// A task is woken while its CPU has another task to run. It moves to a nearby CPU that is awake and has nothing to
/// run, if it may move.
#[test]
fn a_task_that_is_woken_goes_to_a_cpu_near_by_that_is_awake_and_has_nothing_to_run() {
    let workload = "[[workload]]\nkind = \"hackbench\"\ncpus = \"0-3\"\ngroups = 2\ntasks = 4\nmessages = 300\n\
                    size = 8\nroom = 64\nwork = \"1 us\"\n";
    let mut scenario = fair("cpus = 5\nduration = \"20 ms\"\nisolated = \"4\"", workload);
    scenario.policy.governor = Governor::History;
    let previous = kept(&scenario);
    assert_eq!(previous.counts.placed, 0);
    scenario.policy.placement = Placement::Near;
    let near = kept(&scenario);
    assert!(near.counts.placed > 20, "{:?}", near.counts);
    let finish = |outcome: &Outcome| outcome.series("finish").expect("it ends").count();
    assert_eq!(finish(&near), finish(&previous));
    assert!(
        near.shares.iter().all(|one| one.cpu != 4),
        "an isolated CPU takes none: {:?}",
        near.shares
    );
}

/// Makes a scenario of two tasks that are in a critical section of `section` for a quarter of their computing time.
/// With long ticks the test notices a slice that does not end.
fn in_sections(section: u64) -> Scenario {
    let sections = format!(
        "section = \"{section} us\"\nsection_every = \"{} us\"\n",
        section * 4
    );
    let mut scenario = fair(
        "cpus = 2\nduration = \"400 ms\"\nslice = \"700 us\"\ntick = \"4 ms\"",
        &[busy(1, 1), busy(1, 1)]
            .map(|one| one.trim().to_owned() + "\n" + &sections)
            .join("\n"),
    );
    scenario.policy.hrtick = Hrtick::On;
    scenario
}

/// A slice that ends in a section is nearly always extended, to the end of the section or by 20 us.
#[test]
fn flush_7_a_slice_that_ends_in_a_critical_section_is_extended_once() {
    for (section, all_give_way) in [(13, true), (130, false)] {
        let outcome = support::kept(&in_sections(section), 1);
        let counts = outcome.counts;
        assert!(counts.extensions > 50, "{counts:?}");
        assert!(counts.extensions * 2 < counts.switches + counts.picked_again);
        assert_eq!(counts.flushes_at_extension, counts.extensions);
        assert_eq!(
            counts.gave_way == counts.extensions,
            all_give_way,
            "{counts:?}"
        );
        assert!(counts.gave_way * 10 > counts.extensions, "{counts:?}");
        assert!(unfairness(&outcome) <= 20, "{:?}", outcome.shares);
    }
}

#[test]
fn no_slice_is_extended_that_ends_at_ticks() {
    let mut scenario = in_sections(13);
    scenario.policy.hrtick = Hrtick::Off;
    assert_eq!(kept(&scenario).counts.extensions, 0);
}

#[test]
fn sections_are_for_tasks_whose_slices_end() {
    let text = format!(
        "name = \"s\"\nprofile = \"skl-112\"\ncpus = 2\nduration = \"1 ms\"\n\n{}",
        busy(1, 1).trim().to_owned() + "\nsection = \"4 us\"\nsection_every = \"9 us\"\n"
    );
    let _right = read(&text);
    support::are_refused(
        &text,
        r#"
section = "4 us" |  | s.toml:11: section_every: a section is a part of something
section_every = "9 us" |  | s.toml:10: section: a section is a part of something
"9 us" | "3 us" | s.toml:10: section: a task has no such sections
"4 us" | "0 us" | s.toml:10: section: a task has no such sections
weight = 1 | priority = 2 | s.toml:10: section: the slice of such a task is not extended
"#,
    );
}
