use super::{CLAIMS, Effort, one, sensitivity};

fn quick(id: &str) -> super::Headline {
    one(id, 1, Effort::Quick).expect("it is claimed")
}

#[test]
fn every_claim_of_the_design_is_listed_once() {
    let ids: Vec<_> = CLAIMS.iter().map(|claim| claim.id).collect();
    let design = [
        "enqueue",
        "idle-residency",
        "softirq-latency",
        "isolation-noise",
        "hpet-throughput",
        "hpet-share",
        "rearm-rate",
        "spurious",
        "in-place",
        "start-cost",
        "hackbench",
    ];
    assert_eq!(ids, design);
    assert_eq!(one("no-such", 1, Effort::Quick), None);
}

#[test]
fn what_cannot_be_measured_does_not_hold_and_says_what_it_needs() {
    let headline = quick("hackbench");
    assert!(!headline.holds && headline.measured.is_none());
    assert!(headline.why.starts_with("needs "), "{}", headline.why);
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

#[test]
fn isolated_cpus_suffer_only_if_they_take_part() {
    let headline = quick("isolation-noise");
    assert_eq!(headline.broken, [""; 0]);
    let measured = headline.measured.expect("it is measured");
    assert!(measured.baseline > Some(100.0), "{measured:?}");
    assert!(measured.with < Some(10.0), "{measured:?}");
    assert!(headline.why.contains("CPUs 1 ("), "{}", headline.why);
}

#[test]
fn the_soft_stage_at_each_tick_shows_in_the_worst_latency() {
    let headline = quick("softirq-latency");
    assert_eq!(headline.broken, [""; 0]);
    assert!(headline.measured_ratio > Some(1.0), "{headline:?}");
}

#[test]
fn the_ratio_depends_on_the_costs_that_it_is_made_of() {
    let table = sensitivity("start-cost", 1);
    let of = |name: &str| {
        table
            .iter()
            .find(|row| row.cost == name)
            .expect("it is a cost")
    };
    let lock = of("lock");
    assert!(
        lock.half > lock.as_is && lock.as_is > lock.twice,
        "{lock:?}"
    );
    let hpet = of("slow_counter");
    assert_eq!((hpet.half, hpet.twice), (hpet.as_is, hpet.as_is));
    assert!(sensitivity("hackbench", 1).is_empty());
}

#[test]
fn direct_reads_of_the_slow_counter_are_half_of_a_claim() {
    let headline = quick("hpet-share");
    let measured = headline.measured.expect("a half is");
    assert!(
        measured.baseline > Some(1.0) && measured.with.is_none(),
        "{measured:?}"
    );
    assert!(!headline.holds && headline.measured_ratio.is_none());
    assert!(headline.why.starts_with("needs "), "{}", headline.why);
    assert_eq!(sensitivity("hpet-share", 1), []);
}
