use std::sync::OnceLock;

use super::{CLAIMS, ClaimVerdict, Effort, Headline, Tally, holds_without_mechanism, one};
use crate::model::profile::Profile;

/// Returns the result of a quick run of a claim: tried once for all tests that need it, because some take seconds.
fn quick(id: &str) -> Headline {
    static TRIED: [OnceLock<Headline>; CLAIMS.len()] = [const { OnceLock::new() }; CLAIMS.len()];
    let tried = CLAIMS.iter().zip(&TRIED).find(|(claim, _)| claim.id == id);
    let (_, headline) = tried.expect("it is claimed");
    let headline = headline.get_or_init(|| one(id, 1, Effort::Quick).expect("it is claimed"));
    headline.clone()
}

#[test]
fn every_claim_of_the_design_is_listed_once() {
    let ids: Vec<_> = CLAIMS.iter().map(|claim| claim.id).collect();
    let design = [
        "enqueue",
        "idle-residency",
        "softirq-latency",
        "softirq-first-due",
        "isolation-noise",
        "isolation-noise-all",
        "hpet-throughput",
        "hpet-share",
        "slow-counter-stall",
        "rearm-rate",
        "spurious",
        "in-place",
        "start-cost",
        "hackbench",
        "hackbench-sizes",
    ];
    assert_eq!(ids, design);
    assert_eq!(one("no-such", 1, Effort::Quick), None);
}

#[test]
fn searching_costs_more_than_staying() {
    let headline = quick("enqueue");
    assert_eq!(headline.broken, [""; 0]);
    let measured = headline.measured.expect("it is measured");
    // Lock, path, lock, path: what the profile says.
    assert_eq!(measured.with, Some(109.0));
    assert!(headline.measured_ratio > Some(1.0));
    assert!(
        headline
            .spread
            .is_some_and(|(least, greatest)| least < greatest)
    );
}

/// A claim with the same result when the mechanism is off says nothing about the mechanism.
#[test]
fn what_holds_does_not_hold_without_its_mechanism() {
    let mut held = Vec::new();
    // A quick run has a dozen interrupts: too few for `spurious`, which holds or not by which those are.
    for claim in CLAIMS.iter().filter(|claim| claim.id != "spurious") {
        let headline = quick(claim.id);
        let without = holds_without_mechanism(claim.id, 1, Effort::Quick);
        match headline.verdict {
            ClaimVerdict::Holds => {
                assert_eq!(without, Some(false), "{}", claim.id);
                assert!(
                    headline.control_ratio < headline.source_ratio,
                    "{headline:?}"
                );
                held.push(claim.id);
            }
            ClaimVerdict::SaysNothing => assert_eq!(without, Some(true), "{}", claim.id),
            ClaimVerdict::Fails | ClaimVerdict::NotYet => {}
        }
    }
    assert_eq!(
        held,
        [
            "softirq-latency",
            "softirq-first-due",
            "isolation-noise",
            "slow-counter-stall",
            "rearm-rate",
        ]
    );
}

/// The baseline itself fulfils a claim of "not worse".
#[test]
fn a_claim_that_the_baseline_fulfils_says_nothing() {
    let headline = quick("idle-residency");
    assert!(headline.measured_ratio >= headline.source_ratio);
    assert_eq!(
        headline.verdict,
        ClaimVerdict::SaysNothing,
        "{}",
        headline.why
    );
}

#[test]
fn each_claim_counts_once_in_the_tally() {
    let headlines = CLAIMS.iter().map(|claim| quick(claim.id));
    let headlines: Vec<_> = headlines.collect();
    let tally = Tally::of(&headlines);
    let sum = tally.hold + tally.fail + tally.say_nothing + tally.not_yet;
    assert_eq!(sum, CLAIMS.len());
    let unmeasured = headlines.iter().filter(|one| {
        let measured = one.measured.as_ref();
        measured.is_none_or(|measured| measured.with.is_none())
    });
    assert_eq!(tally.not_yet, unmeasured.count());
}

#[test]
fn exactly_the_cpus_of_the_source_suffer_if_they_take_part() {
    let headline = quick("isolation-noise");
    assert_eq!(headline.broken, [""; 0]);
    let measured = headline.measured.as_ref().expect("it is measured");
    assert!(measured.baseline > Some(100.0), "{measured:?}");
    assert!(measured.with < Some(10.0), "{measured:?}");
    assert!(
        headline.holds() && headline.why.contains("CPUs 1 ("),
        "{}",
        headline.why
    );
}

/// Long callbacks alone do not reproduce the observation of the source: with drivers on each housekeeping CPU other
/// CPUs suffer, too, and the claim does not hold, however much.
#[test]
fn drivers_on_all_housekeeping_cpus_disturb_others_than_in_the_source() {
    let headline = quick("isolation-noise-all");
    assert!(
        headline.measured_ratio > headline.source_ratio,
        "the callbacks are long enough: {headline:?}"
    );
    assert_eq!(headline.verdict, ClaimVerdict::Fails, "{}", headline.why);
    assert!(
        headline.why.contains("CPUs [1, 33, 65, 97] suffer"),
        "{}",
        headline.why
    );
}

/// A queue that sorts all timers keeps nearly all restarts in place. The claim is about the library, which does not
/// sort all timers.
#[test]
fn restarts_in_place_are_counted_by_the_library() {
    let headline = quick("in-place");
    let measured = headline.measured.as_ref().expect("it is measured");
    assert!(measured.with < Some(35.0), "{measured:?}");
    assert_eq!(headline.verdict, ClaimVerdict::Fails, "{}", headline.why);
    let kept = headline.why.split("would have kept ").nth(1);
    let share = kept.and_then(|kept| kept.split('(').nth(1));
    let share = share.and_then(|share| share.split(' ').next());
    let share: f64 = share.and_then(|share| share.parse().ok()).expect("a share");
    assert!(share > 35.0, "{}", headline.why);
}

/// Claims about writes, interrupts and restarts of a run have a spread over loads.
#[test]
fn a_claim_of_several_loads_holds_only_with_each_of_them() {
    for id in ["rearm-rate", "spurious", "in-place"] {
        let headline = quick(id);
        let (least, greatest) = headline.spread.expect("there are several loads");
        assert!(least < greatest, "{headline:?}");
        if headline.holds() {
            assert!(headline.source_ratio <= Some(least), "{headline:?}");
        }
    }
}

/// All starts of a hackbench run count, not only those that stay in place.
#[test]
fn the_cost_of_a_start_is_the_mean_of_a_run() {
    let headline = quick("start-cost");
    assert_eq!((headline.scenario, headline.broken.len()), ("hackbench", 0));
    let measured = headline.measured.expect("it is measured");
    // In place it is 77.0 ns, at the clock of the source.
    assert!(measured.with > Some(77.0), "{measured:?}");
    assert!(measured.baseline > measured.with, "{measured:?}");
}

/// The gain is as large as claimed, and the figures are not those of the source: both are said.
#[test]
fn what_direct_reads_cost_is_not_fitted_to_the_source() {
    for id in ["hpet-share", "hpet-throughput"] {
        let headline = quick(id);
        assert!(headline.measured_ratio > headline.source_ratio, "{id}");
        assert_eq!(
            headline.verdict,
            ClaimVerdict::Fails,
            "{id}: {}",
            headline.why
        );
        assert!(headline.why.contains("Not as in the source: direct reads"));
        assert!(
            headline.why.contains("250 ns"),
            "the table: {}",
            headline.why
        );
        assert_eq!(
            holds_without_mechanism(id, 1, Effort::Quick),
            Some(false),
            "{id}"
        );
    }
    let profile = Profile::embedded("hsw-144").expect("it is there");
    let costs = &profile.costs;
    assert_eq!(costs.slow_counter.value, costs.slow_counter_serial.value);
}

#[test]
fn a_very_large_machine_is_stuck_with_direct_reads_and_not_with_combined_ones() {
    let headline = quick("slow-counter-stall");
    let measured = headline.measured.as_ref().expect("it is measured");
    assert!(measured.baseline > Some(290.0), "all of it: {measured:?}");
    assert!(measured.with < Some(0.1), "{measured:?}");
    assert!(headline.holds() && headline.control_ratio < Some(2.0));
}
