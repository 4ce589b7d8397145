use super::{Entry, chosen};
use tickless_sim::headline::{CLAIMS, ClaimVerdict, Effort, Headline, one};

fn unmeasured() -> Headline {
    let claim = CLAIMS.iter().find(|claim| claim.id == "rearm-rate");
    let id = claim.map_or("start-cost", |claim| claim.id);
    one(id, 1, Effort::Quick).expect("it is claimed")
}

#[test]
fn claims_come_in_the_order_of_the_design_and_once() {
    let ids = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let chosen = chosen(&names).expect("they are known");
        chosen.iter().map(|claim| claim.id).collect::<Vec<_>>()
    };
    assert_eq!(
        ids(&["start-cost", "enqueue", "start-cost"]),
        ["enqueue", "start-cost"]
    );
    assert_eq!(ids(&[]).len(), CLAIMS.len());
}

#[test]
fn a_broken_promise_comes_before_everything_else() {
    let mut headline = unmeasured();
    headline.verdict = ClaimVerdict::Fails;
    headline.broken = vec!["never_lost", "covered"];
    let why = Entry::from(&headline).why.expect("it does not hold");
    assert!(
        why.starts_with("Broken promises: never_lost, covered. "),
        "{why}"
    );
}

#[test]
fn only_what_does_not_hold_says_why() {
    let mut headline = unmeasured();
    headline.verdict = ClaimVerdict::Holds;
    let entry = serde_json::to_value(Entry::from(&headline)).expect("it is data");
    assert!(entry.get("why").is_none());
    headline.verdict = ClaimVerdict::Fails;
    let entry = serde_json::to_value(Entry::from(&headline)).expect("it is data");
    assert!(entry["why"].as_str().is_some_and(|why| !why.is_empty()));
}
