use std::time::Duration;

use hdrhistogram::Histogram;

use super::of;
use crate::fair::arguments::Plan;
use crate::fair::mix::Preset;
use crate::fair::result::{Part, Row, Share};
use crate::fair::runtime::Subject;
use crate::histogram;
use crate::mark::MarkVerdict::{self, Holds, Missed, NotMeasured};

fn plan(preset: Preset, subjects: &[Subject]) -> Plan {
    Plan {
        preset,
        mix: preset.mix(),
        subjects: subjects.to_vec(),
        duration: Duration::from_secs(10),
        settling: Duration::ZERO,
        rounds: 3,
        seed: 1,
    }
}

fn late(nanos: u64) -> Histogram<u64> {
    let mut late = histogram::new();
    for _ in 0..2_000 {
        late.record(nanos).expect("it is in range");
    }
    late
}

/// Returns a row with three rounds. `error` is the distance of a weight's share from its entitlement, `micros` the
/// lateness of periodic tasks, and `work` the computed work.
fn row(subject: Subject, error: f64, micros: u64, work: f64) -> Row {
    let share = |weight, got| Share {
        weight,
        entitled: 0.5,
        got,
        lag: 0.0,
    };
    let part = || Part {
        shares: vec![share(1, 0.5 * (1.0 - error)), share(2, 0.5 * (1.0 + error))],
        servers: histogram::new(),
        periodic: late(micros * 1_000),
        early: 0,
        processors: 1.0,
        work,
        longest: None,
    };
    Row {
        parts: vec![part(), part(), part()],
        ..Row::new(subject)
    }
}

fn verdicts(plan: &Plan, rows: &[Row]) -> Vec<MarkVerdict> {
    of(plan, rows).iter().map(|mark| mark.verdict).collect()
}

#[test]
fn shares_are_within_two_percent_or_missed() {
    for preset in [Preset::One, Preset::Ten, Preset::Many] {
        let plan = plan(preset, &[Subject::TicklessSignal, Subject::TicklessOff]);
        for (error, expected) in [(0.0199, Holds), (0.0201, Missed)] {
            let rows = [row(Subject::TicklessSignal, error, 1, 1.0)];
            assert_eq!(verdicts(&plan, &rows), [expected], "{error}");
        }
    }
    let plan = plan(Preset::Ten, &[Subject::Tickless]);
    let marks = of(&plan, &[row(Subject::Tickless, 0.01, 1, 1.0)]);
    assert_eq!(
        marks[0].line(),
        "mark: tickless: each weight's share within 2 % of its entitlement over 10 s: 1.00 %, holds"
    );
}

#[test]
fn lateness_is_held_against_tokio_with_either_checkpoint() {
    let plan = plan(
        Preset::Periodic,
        &[Subject::Tickless, Subject::Tokio, Subject::TokioYield],
    );
    let rows = [
        row(Subject::Tickless, 0.0, 50, 1.0),
        row(Subject::Tokio, 0.0, 1_010, 1.0),
        row(Subject::TokioYield, 0.0, 990, 1.0),
    ];
    assert_eq!(verdicts(&plan, &rows), [Holds, Missed]);
    assert_eq!(verdicts(&plan, &rows[..2]), [Holds, NotMeasured]);
}

#[test]
fn clockworker_is_held_against_in_all_three() {
    let plan = plan(Preset::Queues, &[Subject::Tickless, Subject::Clockworker]);
    let against = |error, micros, work| {
        let rows = [
            row(Subject::Tickless, error, micros, work),
            row(Subject::Clockworker, 0.1, 100, 0.9),
        ];
        verdicts(&plan, &rows)
    };
    assert_eq!(against(0.049, 49, 0.9), [Holds; 3]);
    assert_eq!(against(0.051, 51, 0.89), [Missed; 3]);
}

#[test]
fn processor_time_needs_three_rounds() {
    let plan = plan(Preset::Queues, &[Subject::Tickless]);
    let mut rows = [
        row(Subject::Tickless, 0.0, 1, 0.8),
        row(Subject::Clockworker, 0.1, 100, 0.9),
    ];
    rows[0].parts.truncate(2);
    assert_eq!(verdicts(&plan, &rows), [Holds, Holds, NotMeasured]);
}

#[test]
fn what_did_not_run_is_not_measured() {
    let subjects = [Subject::Tickless, Subject::Clockworker];
    let plan = plan(Preset::Queues, &subjects);
    let mut rows = [
        row(Subject::Tickless, 0.0, 1, 1.0),
        Row::new(Subject::Clockworker),
    ];
    rows[1].missing = Some("it has one worker".to_owned());
    let marks = of(&plan, &rows);
    assert_eq!(
        marks[1].line(),
        "mark: tickless: p99 of the small task at most 0.5 of clockworker's: not measured: clockworker is missing, \
         because it has one worker"
    );
    // Neither one that the user did not ask for.
    let plan = self::plan(Preset::Ten, &[Subject::Tokio]);
    let marks = of(&plan, &[]);
    assert!(
        marks[0]
            .line()
            .ends_with("not measured: tickless did not run"),
        "{marks:?}"
    );
}

#[test]
fn a_percentile_needs_ticks_enough() {
    let plan = plan(Preset::Periodic, &[Subject::Tickless]);
    let mut rows = [
        row(Subject::Tickless, 0.0, 50, 1.0),
        row(Subject::Tokio, 0.0, 5_000, 1.0),
    ];
    for part in &mut rows[0].parts {
        part.periodic = histogram::new();
    }
    assert_eq!(verdicts(&plan, &rows)[0], NotMeasured);
}

#[test]
fn a_mix_that_was_changed_is_not_judged() {
    let mut plan = plan(Preset::Ten, &[Subject::Tickless]);
    let rows = [row(Subject::Tickless, 0.01, 1, 1.0)];
    plan.mix.workers = 7;
    assert_eq!(verdicts(&plan, &rows), [Holds]);
    plan.mix.hogs = 2;
    assert_eq!(verdicts(&plan, &rows), [NotMeasured]);
    plan.preset = Preset::Servers;
    assert_eq!(verdicts(&plan, &rows), []);
}
