//! Tests of runs with faults: the faults happened, every promise holds, and a second run is identical.

mod support;

use tickless_sim::baseline::{Isolation, Soft, Target};
use tickless_sim::{FaultKind, Outcome, Picos, Policy, Scenario, When, run, run_twice};

use support::{MIXED, kept, read, refusal, rows, with};

/// Returns the scenario without faults.
fn base() -> String {
    with(&with(MIXED, "300 ms", "200 ms"), "\"4 ms\"", "\"5 ms\"")
}

fn scenario(faults: &str) -> Scenario {
    read(&format!("{}\n{faults}", base()))
}

/// Runs the scenario with `faults` under several policies, and checks that every promise holds and that `kind` happened
/// `at_least` times in each run. Returns the first outcome.
fn holds_with(faults: &str, kind: FaultKind, at_least: u64) -> Outcome {
    let library = Policy::default();
    let policies = [
        library,
        Policy {
            target: Target::Search,
            ..library
        },
        Policy {
            soft: Soft::Bitmap,
            ..library
        },
        Policy {
            isolation: Isolation::TakePart,
            ..library
        },
    ];
    let mut outcomes = policies.into_iter().map(|policy| {
        let mut scenario = scenario(faults);
        scenario.policy = policy;
        let mut first = None;
        for seed in 1..4 {
            let outcome = kept(&scenario, seed);
            let count = outcome.fault_counts[kind.name()];
            assert!(count >= at_least, "{count} of {kind:?}, {policy:?} {seed}");
            first.get_or_insert(outcome);
        }
        first.expect("there are seeds")
    });
    let first = outcomes.next().expect("there are policies");
    assert!(outcomes.all(|other| other.digest != first.digest));
    first
}

fn without() -> Outcome {
    run(&scenario(""), 1)
}

#[test]
fn late_interrupts_delay_by_what_they_are_late() {
    let table = "[[fault]]\nkind = \"late\"\ncpus = \"all\"\none_in = 5\namount = \"2 ms\"\n";
    let outcome = holds_with(table, FaultKind::Late, 200);
    let exact = outcome.late_exact.max();
    assert!(exact >= Picos::from_millis(2), "{exact}");
    assert!(without().late_exact.max() < Picos::from_millis(2));
}

#[test]
fn the_interrupt_after_one_that_was_lost_makes_good_for_it() {
    let table = "[[fault]]\nkind = \"lost\"\ncpus = \"all\"\none_in = 20\namount = \"3 ms\"\n";
    let outcome = holds_with(table, FaultKind::Lost, 70);
    assert!(outcome.late_exact.max() >= Picos::from_millis(3));
}

#[test]
fn wakeups_that_are_lost_are_made_good_for() {
    let table =
        "[[fault]]\nkind = \"lost-wakeup\"\ncpus = \"all\"\none_in = 1\namount = \"12 ms\"\n";
    let outcome = holds_with(table, FaultKind::LostWakeup, 5);
    // What is armed from elsewhere is due before its CPU hears of it.
    let late = outcome.late_own.max();
    assert!(late >= Picos::from_millis(3), "{late}");
    assert!(without().late_own.max() < Picos::from_millis(2));
}

#[test]
fn stalled_cpus_delay_by_as_much() {
    let table =
        "[[fault]]\nkind = \"stall\"\ncpus = \"all\"\nevery = \"12 ms\"\namount = \"3 ms\"\n";
    let outcome = holds_with(table, FaultKind::Stall, 10);
    assert!(outcome.late_exact.max() > Picos::from_millis(1));
    let table = "[[fault]]\nkind = \"stall\"\ncpus = \"1\"\nat = \"20 ms\"\namount = \"3 ms\"\n";
    let outcome = holds_with(table, FaultKind::Stall, 1);
    let theft = outcome.per_cpu[1].longest_theft;
    assert!(
        theft >= Picos::from_millis(3),
        "the poller notices: {theft}"
    );
}

#[test]
fn the_last_one_that_keeps_house_stays() {
    let table = "[[fault]]\nkind = \"isolate\"\ncpus = \"all\"\nat = \"30 ms\"\n\n\
                 [[fault]]\nkind = \"offline\"\ncpus = \"all\"\nat = \"60 ms\"\namount = \"30 ms\"\n";
    let outcome = holds_with(table, FaultKind::Offline, 12);
    assert!(outcome.fault_counts["offline"] < 16);
}

#[test]
fn panicking_callbacks_stop_their_timer_and_nothing_else() {
    let table = "[[fault]]\nkind = \"panic\"\ncpus = \"9\"\nat = \"10 ms\"\namount = \"2 ms\"\n";
    let outcome = holds_with(table, FaultKind::Panic, 2);
    assert_eq!(outcome.fault_counts["panic"], 2, "each once, and no more");
}

#[test]
fn everything_goes_wrong_at_once() {
    let table = "faults = \"drawn\"\n";
    let scenario = read(&with(&base(), "late_max", &format!("{table}late_max")));
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let outcome = run(&scenario, seed);
        assert!(
            outcome.holds(),
            "{seed}: {:#?} {:?} {:#?}",
            outcome.faults,
            outcome.broken,
            outcome.violations
        );
        assert_eq!(outcome.faults, scenario.fault_plan(seed));
        assert!(!outcome.faults.is_empty());
        seen.extend(
            outcome
                .fault_counts
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(name, _)| *name),
        );
    }
    // All but the one that is never drawn.
    assert_eq!(seen.len(), FaultKind::ALL.len(), "{seen:?}");
    assert!(run_twice(&scenario, 3).holds());
}

#[test]
fn plans_are_written_as_data() {
    let table = "[[fault]]\nkind = \"late\"\ncpus = \"2-3\"\none_in = 5\namount = \"2 ms\"\n";
    let scenario = scenario(table);
    assert_eq!(scenario.faults[0].when, When::OneIn(5));
    let outcome = serde_json::to_value(run(&scenario, 1)).unwrap();
    assert_eq!(outcome["faults"][0]["kind"], "late");
    assert_eq!(outcome["faults"][0]["cpus"], serde_json::json!([2, 3]));
    assert!(outcome["fault_counts"]["late"].as_u64() > Some(0));
}

/// The mistakes, each with the error. The line number is counted from the line of `[[fault]]`.
const WRONG: &str = r#"
kind = "slow"\ncpus = "all"\nat = "1 ms" | 2: kind: there is no fault "slow"; one of late, early, lost, lost-wakeup, spurious, stall
kind = "stall"\ncpus = "all"\nat = "1 ms" | 2: kind: the fault stall needs the field amount
kind = "spurious"\ncpus = "all"\nat = "1 ms"\namount = "1 ms" | 5: amount: the fault spurious has no field amount; delete it
kind = "late"\ncpus = "all"\nat = "1 ms"\namount = "0 ms" | 5: amount: amount is nothing; 1 ps at least
kind = "late"\ncpus = "all"\namount = "1 ms" | 2: kind: the fault late does not say when; write at, every or one_in
kind = "spurious"\ncpus = "all"\none_in = 3 | 4: one_in: the fault spurious has no field one_in; write at or every
kind = "late"\ncpus = "all"\namount = "1 ms"\none_in = 0 | 5: one_in: one_in is nothing; 1 at least
kind = "isolate"\ncpus = "all"\nat = "1 ms"\nevery = "1 ms" | 2: kind: the fault isolate says twice when; write at or every
kind = "stall"\ncpus = "all"\nevery = "3 ms"\namount = "1 ms" | 4: every: before it is over, the next one begins; 4 ms at least
kind = "isolate"\ncpus = "16"\nat = "1 ms" | 3: cpus: there is no CPU 16; the last one is 15
kind = "isolate"\ncpus = "1"\nwhen = "1 ms" | 4: when: unknown field `when`; expected one of
"#;

#[test]
fn wrong_faults_say_where_and_what_would_be_right() {
    let base = base();
    let before = base.lines().count() + 1;
    for [table, said] in rows(WRONG) {
        let text = format!("{base}\n[[fault]]\n{table}\n");
        let error = refusal(&text);
        let (line, said) = said.split_once(':').unwrap();
        let line = before + line.parse::<usize>().unwrap();
        let said = format!("s.toml:{line}:{said}");
        assert!(error.starts_with(&said), "{error}\nis not\n{said}");
    }
    let error = refusal(&with(&base, "late_max", "faults = \"many\"\nlate_max"));
    let said = "s.toml:7: faults: there are no faults \"many\"; none, drawn, or [[fault]] tables";
    assert_eq!(error, said);
}
