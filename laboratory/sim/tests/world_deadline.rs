//! Tests of machines on which tasks have reservations, which give a task its runtime in each period, before a deadline.

mod support;

use tickless_sim::baseline::{DeadlineTick, Rearm};
use tickless_sim::{Canary, Outcome, Picos, Promise, Scenario, run};

use support::{are_refused, kept, read};

const TWO: &str = r#"
name = "two"
profile = "skl-112"
cpus = 2
duration = "1 s"
tick = "4 ms"
late_max = "20 ms"

[policy]
scheduler = "fair"

[[workload]]
kind = "busy"
cpus = "1"
runtime = "2 ms"
runtime_period = "10 ms"

[[workload]]
kind = "busy"
cpus = "1"
runtime = "1500 us"
runtime_deadline = "3 ms"
runtime_period = "6 ms"

[[workload]]
kind = "busy"
cpus = "1"
"#;

/// Returns the CPU time of each task, in thousandths of the duration.
fn shares(outcome: &Outcome) -> Vec<u64> {
    let part = |had: Picos| had.0 / (outcome.duration.0 / 1_000);
    outcome.shares.iter().map(|one| part(one.had)).collect()
}

fn two() -> Scenario {
    read(TWO)
}

#[test]
fn each_reservation_is_kept_and_others_have_the_rest() {
    let precise = kept(&two(), 1);
    // By the clock of the run queue, which stands while interrupts have the CPU.
    for (share, promised) in shares(&precise).into_iter().zip([200, 250]) {
        assert!(
            (promised - 2..=promised).contains(&share),
            "{:?}",
            precise.shares
        );
    }
    assert!(
        (530..=550).contains(&shares(&precise)[2]),
        "less what interrupts take"
    );
    // 100 and 167 periods, the first of which needs no replenishment, and the last of which may go on.
    let counts = precise.counts;
    assert!((264..=267).contains(&counts.throttled), "{counts:?}");
    assert!(counts.throttled - counts.replenished <= 2, "{counts:?}");
}

/// A runtime without a tick of its own ends at a periodic tick, and the excess is subtracted from the next runtimes.
#[test]
fn the_class_has_a_switch_of_its_own() {
    assert_eq!(two().policy.deadline_hrtick, DeadlineTick::On, "by default");
    let precise = kept(&two(), 1);
    let mut scenario = two();
    scenario.policy.deadline_hrtick = DeadlineTick::Off;
    let coarse = kept(&scenario, 1);
    // The rate, and in the end a runtime and a tick.
    for (share, most) in shares(&coarse).into_iter().zip([200 + 2 + 4, 250 + 2 + 4]) {
        assert!(share <= most, "{:?}", coarse.shares);
    }
    assert!(
        coarse.counts.throttled * 3 < precise.counts.throttled * 2,
        "{:?}",
        coarse.counts
    );
    // Fair tasks have theirs still, and the other way round.
    let fair = |text: &str| TWO.replace("[policy]\n", &format!("[policy]\n{text}\n"));
    let other = kept(&read(&fair("hrtick = \"off\"")), 1);
    assert_eq!(other.counts.throttled, precise.counts.throttled);
}

/// A task that needs more than its reservation delays only itself.
#[test]
fn a_runaway_keeps_no_other_from_its_deadline() {
    let periodic = r#"
[[workload]]
kind = "cyclictest"
cpus = "1"
period = "5 ms"
runtime = "100 us"
runtime_deadline = "1 ms"
runtime_period = "5 ms"
"#;
    for rearm in [Rearm::Deferred, Rearm::Eager, Rearm::Immediate] {
        let mut scenario = read(&format!("{TWO}{periodic}"));
        scenario.policy.rearm = rearm;
        let outcome = kept(&scenario, 1);
        let latency = outcome.series("latency").expect("it runs");
        assert!(latency.count() > 150, "{latency:?}");
        assert!(
            latency.percentile(999) < Picos::from_micros(20),
            "{rearm:?} {latency:?}"
        );
    }
}

#[test]
fn a_runtime_that_does_not_end_or_does_not_come_back_is_caught() {
    for promise in [Promise::RuntimeBounded, Promise::RuntimeGiven] {
        let mut scenario = two();
        scenario.canary = Some(Canary(promise));
        let outcome = run(&scenario, 1);
        assert!(
            outcome.broken.contains_key(&promise),
            "{promise:?} {:?}",
            outcome.broken
        );
    }
}

#[test]
fn reservations_that_no_cpu_can_keep_are_refused() {
    are_refused(
        TWO,
        r#"
"2 ms" | "5 ms" | s.toml:19: kind: CPU 1 cannot keep all of its reservations
"2 ms" | "9 us" | s.toml:15: runtime: a task cannot have that
"3 ms" | "7 ms" | s.toml:21: runtime: a task cannot have that
runtime_period | priority = 255\nruntime_period | s.toml:13: kind: no priority is so high
runtime = "2 ms" |  | s.toml:16: runtime_period: a time for no runtime
runtime_period = "10 ms" |  | s.toml:15: runtime: a runtime in no period
"#,
    );
}

const ALONE: &str = r#"
name = "alone"
profile = "skl-112"
cpus = 1
duration = "320 ms"
tick = "4 ms"
late_max = "12 ms"

[policy]
scheduler = "fair"
"#;

/// A CPU whose only task is throttled idles, and stops its tick. The CPU picks the same task next, which is still a
/// switch from idle (seed 20,000,056 of the random scenarios).
#[test]
fn a_task_that_comes_back_from_idle_has_a_tick_to_end_at() {
    let outcome = kept(
        &read(&format!(
            "{ALONE}deadline_hrtick = \"off\"\n\n[[workload]]\nkind = \"busy\"\ncpus = \"0\"\n\
             runtime = \"1300 us\"\nruntime_period = \"16256 us\"\n"
        )),
        1,
    );
    assert!(outcome.counts.replenished > 4, "{:?}", outcome.counts);
}

/// Interrupts make a tick early. The tick finds less runtime left than a switch takes. Then a task with an earlier
/// deadline runs, and the switch back spends the rest of the runtime. No timer is started for a spent runtime, so that
/// a decision is due at once (seed 20,000,077 of the random scenarios).
#[test]
fn a_runtime_that_the_switch_spends_ends_there() {
    let workload = |work: &str, runtime: &str, period: &str| {
        format!(
            "\n[[workload]]\n{work}cpus = \"0\"\nruntime = \"{runtime} us\"\nruntime_period = \"{period} us\"\n"
        )
    };
    let text = [
        ALONE.to_owned(),
        workload("kind = \"oslat\"\n", "68", "2268"),
        workload(
            "kind = \"compute\"\nwork = \"545 us\"\nrepetitions = 1\n",
            "205",
            "3421",
        ),
    ];
    kept(&read(&text.concat()), 20_000_077);
}
