//! Scenarios that tests of machines read, let happen, and see refused.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses some of it"
)]

use tickless_sim::{Outcome, Scenario, run_twice};

/// The scenario that `text` is.
pub(crate) fn read(text: &str) -> Scenario {
    Scenario::from_toml(text, "s.toml").unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// Returns the error for `text`, which is no scenario.
pub(crate) fn refusal(text: &str) -> String {
    match Scenario::from_toml(text, "s.toml") {
        Ok(_) => panic!("it is right:\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// `text` with `to` in place of the first `from`.
pub(crate) fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// Each `(from, to, said)` replaced in `text` makes it no scenario, and the error begins with `said`.
pub(crate) fn are_refused(text: &str, wrong: &[(&str, &str, &str)]) {
    for (from, to, said) in wrong {
        let error = refusal(&with(text, from, to));
        assert!(error.starts_with(said), "{error}\nis not\n{said}");
    }
}

/// Every promise was kept.
pub(crate) fn holds(outcome: &Outcome) {
    let (name, seed) = (&outcome.scenario, outcome.seed);
    let (broken, stories) = (&outcome.broken, &outcome.violations);
    assert!(outcome.holds(), "{name} {seed}: {broken:?} {stories:#?}");
}

/// Runs `scenario` twice, and checks that it keeps every promise, that of being the same twice included.
pub(crate) fn kept(scenario: &Scenario, seed: u64) -> Outcome {
    let outcome = run_twice(scenario, seed);
    holds(&outcome);
    outcome
}
