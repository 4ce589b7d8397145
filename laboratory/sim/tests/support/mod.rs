//! Helpers for tests of machines: they read scenarios, run them, and check that a wrong scenario is refused.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses some of it"
)]

use tickless_sim::{Outcome, Scenario, run_twice};

/// Two quiet nodes and a busy one, with pinned timers, movable timers, sleepers and isolation.
pub(crate) const MIXED: &str = r#"
name = "mixed"
profile = "epyc-128"
cpus = 16
duration = "300 ms"
isolated = "1,9-11"
late_max = "4 ms"

[[workload]]
kind = "oslat"
cpus = "1"

[[workload]]
kind = "cyclictest"
cpus = "9,12"
period = "250 us"

[[workload]]
kind = "enqueue"
cpus = "10"
repetitions = 100
timeout = "1 s"
gap = "5 ms"

[[workload]]
kind = "network"
cpus = "2-5"
connections = 32
gap = "300 us"
work = "5 us"
timeout = "10 ms"
timeout_max = "200 ms"
cancelled = 95

[[workload]]
kind = "daemons"
cpus = "housekeeping"
tasks = 2
period = "5 ms"
period_max = "80 ms"
work = "20 us"
work_max = "2 ms"

[[workload]]
kind = "polls"
cpus = "6-8"
timers = 3
period = "3 ms"
period_max = "50 ms"
work = "5 us"
work_max = "100 us"

[[workload]]
kind = "remote-arms"
cpus = "0"
gap = "2 ms"
timeout = "7 ms"

[[workload]]
kind = "starts"
cpus = "14"
timers = 8
repetitions = 20
gap = "10 ms"
"#;

pub(crate) fn read(text: &str) -> Scenario {
    Scenario::from_toml(text, "s.toml").unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// Returns the error for `text`, which must not be a valid scenario.
pub(crate) fn refusal(text: &str) -> String {
    match Scenario::from_toml(text, "s.toml") {
        Ok(_) => panic!("it is right:\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// Returns `text` with `to` in place of the first `from`.
pub(crate) fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// Returns the cells of each line of a table. `\n` in a cell stands for the end of a line.
pub(crate) fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [String; N]> {
    table.trim().lines().map(|line| {
        let cells = line.split(" | ").map(|cell| cell.replace("\\n", "\n"));
        let cells: Vec<String> = cells.collect();
        cells.try_into().expect(line)
    })
}

/// Checks for each line `from | to | said` that `text` with `to` in place of `from` is refused, with an error that
/// begins with `said`.
pub(crate) fn are_refused(text: &str, wrong: &str) {
    for [from, to, said] in rows(wrong) {
        let error = refusal(&with(text, &from, &to));
        assert!(error.starts_with(&said), "{error}\nis not\n{said}");
    }
}

/// Checks that every promise was kept.
pub(crate) fn holds(outcome: &Outcome) {
    let (name, seed) = (&outcome.scenario, outcome.seed);
    let (broken, stories) = (&outcome.broken, &outcome.violations);
    assert!(outcome.holds(), "{name} {seed}: {broken:?} {stories:#?}");
}

/// Runs `scenario` twice, and checks that both runs keep every promise and are identical.
pub(crate) fn kept(scenario: &Scenario, seed: u64) -> Outcome {
    let outcome = run_twice(scenario, seed);
    holds(&outcome);
    outcome
}
