//! Helpers for tests of machines: they read scenarios, run them, and check that a wrong scenario is refused.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses some of it"
)]

use tickless_sim::{Outcome, Scenario, run_twice};

/// Reads the scenario in `text`.
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

/// Checks for each `(from, to, said)` that `text` with `to` in place of `from` is refused, with an error that begins
/// with `said`.
pub(crate) fn are_refused(text: &str, wrong: &[(&str, &str, &str)]) {
    for (from, to, said) in wrong {
        let error = refusal(&with(text, from, to));
        assert!(error.starts_with(said), "{error}\nis not\n{said}");
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
