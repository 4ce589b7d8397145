//! The marks that the project set itself for the cost of timers, and the verdict of a run on each.
//!
//! A mark is judged by medians. The range next to the median is the one that the rounds allow: its ends are the least
//! of one side divided by the greatest of the other, and the greatest divided by the least. A mark whose figures were
//! not measured is not judged.

use tickless_peers::{Operation, Row, TOKIO};

use super::Finished;
use super::groups::{self, Group};
use crate::mark::Mark;
use crate::spread::Spread;

const WHEEL: &str = "WheelTimer on a Worker";
const EXACT: &str = "HrTimer on a Worker";
const ON_WORKER: &str = "Sleep on a Worker";
const ON_THREAD: &str = "Sleep on a plain thread";
const COARSE: &str = "coarse::Sleep on a Worker";
const LAZY_DELETION: &str = "binary heap, lazy deletion";
const LAZY_EXTENSION: &str = "binary heap, lazy extension";
const LISTS: &str = "limit: a list for each bucket";
const LINE: &str = "limit: a cache line, one way";

const TIMERS: &[&str] = &[WHEEL, EXACT];
const SLEEPS: &[&str] = &[ON_WORKER, ON_THREAD];
const FUTURES: &[&str] = &[ON_WORKER, ON_THREAD, COARSE];
const OURS: &[&str] = &[ON_WORKER, ON_THREAD, COARSE, WHEEL, EXACT];
const HEAPS: &[&str] = &[LAZY_DELETION, LAZY_EXTENSION];

/// The numbers of pending timers: few, more than the caches hold, and many.
const FEW: u64 = 1_000;
const BEYOND_CACHES: u64 = 100_000;
const MANY: u64 = 1_000_000;
const MOST: u64 = 10_000_000;

/// A bound as a multiple of the cheapest subject of several.
struct Bound {
    operation: Operation,
    subjects: &'static [&'static str],
    most: f64,
    of: &'static [&'static str],
    /// The numbers of pending timers for which the bound holds; any number if the list is empty.
    pending: &'static [u64],
}

const fn bound(
    operation: Operation,
    subjects: &'static [&'static str],
    most: f64,
    of: &'static [&'static str],
    pending: &'static [u64],
) -> Bound {
    Bound {
        operation,
        subjects,
        most,
        of,
        pending,
    }
}

/// The numbers of pending timers at which cache misses decide the cost.
const COLD: &[u64] = &[BEYOND_CACHES, MANY];

const BOUNDS: [Bound; 20] = [
    bound(Operation::ArmCancel, TIMERS, 0.5, &[LAZY_DELETION], &[]),
    bound(Operation::PushSmall, TIMERS, 1.5, &[LAZY_EXTENSION], &[FEW]),
    bound(
        Operation::PushSmall,
        TIMERS,
        1.0,
        &[LAZY_EXTENSION],
        &[MANY],
    ),
    bound(Operation::Churn, TIMERS, 0.6, HEAPS, &[FEW, MANY]),
    bound(Operation::ArmCancelClock, SLEEPS, 0.3, &[TOKIO], &[]),
    bound(Operation::PushSmall, SLEEPS, 0.6, &[TOKIO], &[]),
    bound(Operation::PushIdle, SLEEPS, 0.6, &[TOKIO], &[]),
    bound(Operation::Churn, SLEEPS, 0.3, &[TOKIO], &[]),
    bound(
        Operation::ArmCancelClock,
        &[COARSE, WHEEL],
        2.0,
        &[LISTS],
        &[],
    ),
    bound(Operation::PushSmall, &[COARSE, WHEEL], 1.5, &[LISTS], &[]),
    bound(Operation::CrossArm, OURS, 1.0, &[TOKIO], &[]),
    bound(Operation::CrossCancel, OURS, 1.0, &[TOKIO], &[]),
    bound(Operation::CrossCancel, OURS, 3.0, &[LINE], &[]),
    bound(Operation::Expire, FUTURES, 1.0, &[TOKIO], &[]),
    bound(Operation::Churn, &[WHEEL], 2.5, &[LISTS], COLD),
    bound(Operation::Churn, &[ON_WORKER], 4.0, &[LISTS], COLD),
    bound(Operation::Churn, &[ON_THREAD], 5.0, &[LISTS], COLD),
    bound(Operation::PushIdle, &[ON_WORKER], 1.2, &[LISTS], COLD),
    bound(Operation::Expire, SLEEPS, 0.8, &[TOKIO], COLD),
    bound(Operation::Expire, &[COARSE], 0.6, &[TOKIO], COLD),
];

/// The greatest factor by which many pending timers may cost more than few, beyond the growth of the limit itself.
const FLAT: f64 = 1.3;
const FLAT_OPERATIONS: [Operation; 3] =
    [Operation::ArmCancel, Operation::PushSmall, Operation::Churn];

/// Returns all marks whose figures were measured.
pub(super) fn judge(finished: &Finished) -> Vec<Mark> {
    let groups = groups::all(finished);
    let mut marks: Vec<_> = { BOUNDS.iter() }
        .flat_map(|bound| bound.judge(&groups))
        .collect();
    for operation in FLAT_OPERATIONS {
        let flat = |subject: &&str| flat(&groups, operation, subject);
        marks.extend(OURS.iter().filter_map(flat));
    }
    marks
}

impl Bound {
    fn judge(&self, groups: &[Group<'_>]) -> Vec<Mark> {
        let meant = groups.iter().filter(|group| {
            let counts = self.pending.is_empty() || self.pending.contains(&group.pending);
            group.operation == self.operation && counts
        });
        meant.flat_map(|group| self.judge_in(group)).collect()
    }

    fn judge_in(&self, group: &Group<'_>) -> Vec<Mark> {
        let of = group.best(|row| self.of.contains(&row.subject));
        let Some(of) = of.filter(|of| of.figure().min > 0.0) else {
            return Vec::new();
        };
        { self.subjects.iter() }
            .filter_map(|name| group.of(name))
            .map(|row| {
                let ratio = divide(of_row(row), of_row(of));
                judged(&group.title(), row, of.subject, (self.most, ratio))
            })
            .collect()
    }
}

/// Judges the growth of a subject's cost from few to the most pending timers, as a multiple of the limit's growth:
/// cache misses that the limit has too are not the subject's.
fn flat(groups: &[Group<'_>], operation: Operation, subject: &str) -> Option<Mark> {
    let with = |pending| {
        let mut of = groups.iter().filter(|group| group.operation == operation);
        of.find(|group| group.pending == pending)
    };
    let (few, most) = (with(FEW)?, with(MOST)?);
    let (row, limit) = (most.of(subject)?, most.of(LISTS)?);
    let growth = divide(of_row(row), of_row(few.of(subject)?));
    let grown = divide(of_row(limit), of_row(few.of(LISTS)?));
    let what = format!("{}, to {}", most.title(), few.conditions());
    let of = format!("the growth of {LISTS}");
    Some(judged(&what, row, &of, (FLAT, divide(growth, grown))))
}

fn of_row(row: &Row) -> Spread {
    let tickless_peers::Spread { median, min, max } = row.figure();
    // The peers give no count; only comparisons of rounds ask for it, and marks are none.
    Spread {
        min,
        median,
        max,
        rounds: 0,
    }
}

/// Returns the ratio of the medians, and the least and the greatest ratio that the rounds allow.
fn divide(ours: Spread, theirs: Spread) -> Spread {
    Spread {
        median: ours.median / theirs.median,
        min: ours.min / theirs.max,
        max: ours.max / theirs.min,
        rounds: ours.rounds.min(theirs.rounds),
    }
}

fn judged(what: &str, row: &Row, of: &str, (most, ratio): (f64, Spread)) -> Mark {
    let mark = format!("{what}: {}, at most {most} of {of}", row.subject);
    Mark::at_most(most, mark, Ok(ratio), |ratio| format!("{ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use tickless_peers::{Family, Operation, Row, TOKIO};

    use super::super::closing::tests::{finished, row};
    use super::{EXACT, FEW, LAZY_EXTENSION, LISTS, MANY, MOST, ON_WORKER, judge};
    use crate::mark::{Mark, MarkVerdict};

    fn of(operation: Operation, pending: u64, subject: &'static str, ns: [f64; 3]) -> Row {
        Row {
            op: operation.name(),
            operation,
            pending,
            ..row(subject, Family::Tickless, ns)
        }
    }

    #[test]
    fn a_mark_is_judged_by_medians_and_shown_with_its_range() {
        let push = Operation::PushSmall;
        let marks = judge(&finished(vec![
            of(push, FEW, EXACT, [10.0, 15.0, 20.0]),
            of(push, FEW, LAZY_EXTENSION, [9.0, 10.0, 11.0]),
            of(push, MANY, EXACT, [10.0, 15.0, 20.0]),
            of(push, MANY, LAZY_EXTENSION, [9.0, 10.0, 11.0]),
        ]));
        let lines: Vec<_> = marks.iter().map(Mark::line).collect();
        assert_eq!(
            lines,
            [
                "mark: push-small, 1,000 pending: HrTimer on a Worker, at most 1.5 of binary heap, lazy extension: \
                 1.50 (0.91 to 2.22), holds",
                "mark: push-small, 1,000,000 pending: HrTimer on a Worker, at most 1 of binary heap, lazy extension: \
                 1.50 (0.91 to 2.22), MISSED",
            ]
        );
    }

    /// Each mark names an existing subject; a mark with another name would never be judged.
    #[test]
    fn every_name_is_that_of_a_subject() {
        let subjects: Vec<_> = { tickless_peers::subjects().into_iter() }
            .map(|(name, _)| name)
            .collect();
        let names = super::BOUNDS
            .iter()
            .flat_map(|mark| mark.subjects.iter().chain(mark.of));
        for name in names.chain(super::OURS) {
            assert!(subjects.contains(name), "{name}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let alone = of(Operation::Churn, FEW, EXACT, [1.0; 3]);
        assert_eq!(judge(&finished(vec![alone])), []);
        assert_eq!(judge(&finished(Vec::new())), []);
    }

    #[test]
    fn the_cheapest_of_those_that_are_meant_counts() {
        let churn = Operation::Churn;
        let judged = judge(&finished(vec![
            of(churn, FEW, EXACT, [6.0; 3]),
            of(churn, FEW, super::LAZY_DELETION, [11.0; 3]),
            of(churn, FEW, LAZY_EXTENSION, [10.0; 3]),
        ]));
        assert_eq!(judged.len(), 1);
        assert!(judged[0].mark.ends_with(LAZY_EXTENSION), "{judged:?}");
        assert_eq!(judged[0].verdict, MarkVerdict::Holds);
    }

    #[test]
    fn what_another_thread_cancels_is_judged_of_raw_timers_too() {
        let judged = |subject| {
            let cancel = |subject, ns| of(Operation::CrossCancel, 0, subject, [ns; 3]);
            let rows = vec![
                cancel(subject, 20.0),
                cancel(TOKIO, 22.0),
                cancel(super::LINE, 6.0),
            ];
            let marks = judge(&finished(rows)).into_iter();
            marks.map(|mark| mark.verdict).collect::<Vec<_>>()
        };
        for subject in super::OURS {
            assert_eq!(
                judged(subject),
                [MarkVerdict::Holds, MarkVerdict::Missed],
                "{subject}"
            );
        }
    }

    #[test]
    fn what_grows_as_the_limit_does_is_flat() {
        let churn = Operation::Churn;
        let grown = |most| {
            judge(&finished(vec![
                of(churn, FEW, ON_WORKER, [10.0; 3]),
                of(churn, FEW, LISTS, [1.0; 3]),
                of(churn, MOST, ON_WORKER, [most; 3]),
                of(churn, MOST, LISTS, [10.0; 3]),
            ]))
        };
        let [flat] = &grown(130.0)[..] else {
            panic!("there is one mark")
        };
        assert_eq!(flat.verdict, MarkVerdict::Holds, "{flat:?}");
        assert_eq!(grown(131.0)[0].verdict, MarkVerdict::Missed);
        let tokio = of(churn, MOST, TOKIO, [1.0; 3]);
        assert_eq!(judge(&finished(vec![tokio])), []);
    }
}
