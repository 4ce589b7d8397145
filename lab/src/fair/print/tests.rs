use hdrhistogram::Histogram;

use super::{METRICS, against};
use crate::fair::result::{Part, Row, Share};
use crate::fair::runtime::Subject;
use crate::histogram;
use crate::units::percent;

fn late(micros: u64) -> Histogram<u64> {
    let mut late = histogram::new();
    for _ in 0..2_000 {
        late.record(micros * 1_000).expect("it is in range");
    }
    late
}

/// Returns a row with a round for each figure: the lateness of periodic tasks, and the computed work.
fn row(subject: Subject, rounds: &[(u64, f64)]) -> Row {
    let parts = rounds.iter().map(|&(micros, work)| Part {
        shares: vec![Share {
            weight: 1,
            entitled: 1.0,
            got: 1.0,
            lag: 0.0,
        }],
        servers: histogram::new(),
        periodic: late(micros),
        early: 0,
        processors: 1.0,
        work,
        longest: None,
    });
    Row {
        parts: parts.collect(),
        ..Row::new(subject)
    }
}

#[test]
fn gains_and_losses_are_named_alike() {
    let ours = row(Subject::Smol, &[(100, 0.90), (110, 0.91), (120, 0.92)]);
    let other = row(
        Subject::Tokio,
        &[(4_000, 0.97), (4_200, 0.98), (4_400, 0.99)],
    );
    let sentences = against(&ours, &other);
    assert_eq!(
        sentences,
        [
            "smol is better than tokio: p99.9 of periodic wake-ups 0.03 (110 µs against 4.20 ms).",
            "smol is worse than tokio: work for the same processor time 1.08 (91.0 % against 98.0 %).",
        ]
    );
    // The other way around, the same figures change places.
    let sentences = against(&other, &ours);
    assert!(
        sentences[0].contains("tokio is better than smol: work"),
        "{sentences:?}"
    );
    assert!(
        sentences[1].contains("tokio is worse than smol: p99.9"),
        "{sentences:?}"
    );
}

#[test]
fn rounds_that_overlap_show_no_difference() {
    let ours = row(Subject::Smol, &[(100, 0.9), (200, 0.9), (300, 0.9)]);
    let other = row(Subject::Tokio, &[(200, 0.9), (210, 0.9), (250, 0.9)]);
    let sentences = against(&ours, &other);
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].starts_with("smol is within the spread of rounds of tokio: p99.9"));
}

#[test]
fn one_round_gives_no_verdict() {
    let ours = row(Subject::Smol, &[(100, 0.9)]);
    let other = row(Subject::Tokio, &[(4_000, 0.9)]);
    let sentences = against(&ours, &other);
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0].starts_with("No verdict on smol and tokio, which takes 3 rounds"),
        "{sentences:?}"
    );
}

#[test]
fn the_share_of_a_task_alone_is_no_metric() {
    let alone = row(Subject::Tokio, &[(100, 0.9)]);
    assert!((METRICS[0].of)(&alone).is_none());
}

#[test]
fn percents_have_three_digits() {
    assert_eq!(percent(0.0123), "1.23 %");
    assert_eq!(percent(12.3), "1,230 %");
}
