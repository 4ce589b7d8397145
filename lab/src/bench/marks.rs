//! The marks that the project set itself, and whether this run holds them.
//!
//! A mark is judged by medians. What stands beside is the range that the rounds allow: the least of one side to the
//! greatest of the other. What was not measured is not judged.

use serde::Serialize;
use tickless_peers::{Operation, Row, Spread, TOKIO};

use super::Finished;
use super::groups::{self, Group};
use crate::units;

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

/// With few pending, and with many.
const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
const MOST: u64 = 10_000_000;

/// At most so many times what the cheapest of some takes for the same.
struct Mark {
    operation: Operation,
    subjects: &'static [&'static str],
    most: f64,
    of: &'static [&'static str],
    /// With so many pending; with any number if there is none.
    pending: &'static [u64],
}

const fn mark(
    operation: Operation,
    subjects: &'static [&'static str],
    most: f64,
    of: &'static [&'static str],
    pending: &'static [u64],
) -> Mark {
    Mark {
        operation,
        subjects,
        most,
        of,
        pending,
    }
}

const MARKS: [Mark; 14] = [
    mark(Operation::ArmCancel, TIMERS, 0.5, &[LAZY_DELETION], &[]),
    mark(Operation::PushSmall, TIMERS, 1.5, &[LAZY_EXTENSION], &[FEW]),
    mark(
        Operation::PushSmall,
        TIMERS,
        1.0,
        &[LAZY_EXTENSION],
        &[MANY],
    ),
    mark(Operation::Churn, TIMERS, 0.6, HEAPS, &[FEW, MANY]),
    mark(Operation::ArmCancelClock, SLEEPS, 0.3, &[TOKIO], &[]),
    mark(Operation::PushSmall, SLEEPS, 0.6, &[TOKIO], &[]),
    mark(Operation::PushIdle, SLEEPS, 0.6, &[TOKIO], &[]),
    mark(Operation::Churn, SLEEPS, 0.3, &[TOKIO], &[]),
    mark(
        Operation::ArmCancelClock,
        &[COARSE, WHEEL],
        2.0,
        &[LISTS],
        &[],
    ),
    mark(Operation::PushSmall, &[COARSE, WHEEL], 1.5, &[LISTS], &[]),
    mark(Operation::CrossArm, FUTURES, 1.0, &[TOKIO], &[]),
    mark(Operation::CrossCancel, FUTURES, 1.0, &[TOKIO], &[]),
    mark(Operation::CrossCancel, FUTURES, 3.0, &[LINE], &[]),
    mark(Operation::Expire, FUTURES, 1.0, &[TOKIO], &[]),
];

/// What many pending timers may cost beyond what they cost the limit, and in which operations.
const FLAT: f64 = 1.3;
const FLAT_OPERATIONS: [Operation; 3] =
    [Operation::ArmCancel, Operation::PushSmall, Operation::Churn];

/// A mark of this run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    /// The operation, under which conditions.
    pub(super) what: String,
    pub(super) subject: &'static str,
    /// What the ratio is to.
    pub(super) of: String,
    pub(super) at_most: f64,
    pub(super) ratio: Spread,
    pub(super) holds: bool,
}

/// All marks of what was measured.
pub(super) fn judge(finished: &Finished) -> Vec<Judged> {
    let groups = groups::all(finished);
    let mut judged: Vec<Judged> = MARKS.iter().flat_map(|mark| mark.judge(&groups)).collect();
    for operation in FLAT_OPERATIONS {
        judged.extend(
            OURS.iter()
                .filter_map(|&subject| flat(&groups, operation, subject)),
        );
    }
    judged
}

/// One sentence a mark.
pub(super) fn sentences(finished: &Finished) -> Vec<String> {
    let judged = judge(finished);
    let held = judged.iter().filter(|judged| judged.holds).count();
    let count = |count: usize| units::count(count as u64);
    let mut lines: Vec<_> = judged.iter().map(Judged::sentence).collect();
    if !lines.is_empty() {
        let all = count(lines.len());
        lines.insert(0, format!("{} of {all} hold.", count(held)));
    }
    lines
}

impl Mark {
    fn judge(&self, groups: &[Group<'_>]) -> Vec<Judged> {
        let meant = groups.iter().filter(|group| {
            let counts = self.pending.is_empty() || self.pending.contains(&group.pending);
            group.operation == self.operation && counts
        });
        meant.flat_map(|group| self.judge_in(group)).collect()
    }

    fn judge_in(&self, group: &Group<'_>) -> Vec<Judged> {
        let of = { self.of.iter() }
            .filter_map(|name| group.of(name))
            .min_by(|one, other| one.figure().median.total_cmp(&other.figure().median));
        let Some(of) = of.filter(|of| of.figure().min > 0.0) else {
            return Vec::new();
        };
        { self.subjects.iter() }
            .filter_map(|name| group.of(name))
            .map(|row| {
                let ratio = divide(row.figure(), of.figure());
                Judged::new(group.title(), row, of.subject.to_owned(), self.most, ratio)
            })
            .collect()
    }
}

/// How much more a subject takes with the most pending than with few, as a multiple of how much more the limit does:
/// its misses of the cache are no fault of the subject's.
fn flat(groups: &[Group<'_>], operation: Operation, subject: &str) -> Option<Judged> {
    let with = |pending| {
        let mut of = groups.iter().filter(|group| group.operation == operation);
        of.find(|group| group.pending == pending)
    };
    let (few, most) = (with(FEW)?, with(MOST)?);
    let (row, limit) = (most.of(subject)?, most.of(LISTS)?);
    let growth = divide(row.figure(), few.of(subject)?.figure());
    let grown = divide(limit.figure(), few.of(LISTS)?.figure());
    let what = format!("{}, to {}", most.title(), few.conditions());
    let of = format!("the growth of {LISTS}");
    Some(Judged::new(what, row, of, FLAT, divide(growth, grown)))
}

/// The ratio of medians, and the least and the greatest that the rounds allow.
fn divide(ours: Spread, theirs: Spread) -> Spread {
    Spread {
        median: ours.median / theirs.median,
        min: ours.min / theirs.max,
        max: ours.max / theirs.min,
    }
}

impl Judged {
    fn new(what: String, row: &Row, of: String, at_most: f64, ratio: Spread) -> Self {
        Self {
            what,
            subject: row.subject,
            of,
            at_most,
            ratio,
            holds: ratio.median <= at_most,
        }
    }

    fn sentence(&self) -> String {
        let Self {
            what,
            subject,
            of,
            at_most,
            ratio: Spread { median, min, max },
            holds,
        } = self;
        let verdict = if *holds { "holds" } else { "MISSED" };
        format!(
            "{what}: {subject}, at most {at_most} of {of}: {median:.2} ({min:.2} to {max:.2}), {verdict}"
        )
    }
}

#[cfg(test)]
mod tests {
    use tickless_peers::{Family, Operation, Row, TOKIO};

    use super::super::closing::tests::{finished, row};
    use super::{EXACT, FEW, LAZY_EXTENSION, LISTS, MANY, MOST, ON_WORKER, judge, sentences};

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
        let told = sentences(&finished(vec![
            of(push, FEW, EXACT, [10.0, 15.0, 20.0]),
            of(push, FEW, LAZY_EXTENSION, [9.0, 10.0, 11.0]),
            of(push, MANY, EXACT, [10.0, 15.0, 20.0]),
            of(push, MANY, LAZY_EXTENSION, [9.0, 10.0, 11.0]),
        ]));
        assert_eq!(
            told,
            [
                "1 of 2 hold.",
                "push-small, 1,000 pending: HrTimer on a Worker, at most 1.5 of binary heap, lazy extension: 1.50 \
                 (0.91 to 2.22), holds",
                "push-small, 1,000,000 pending: HrTimer on a Worker, at most 1 of binary heap, lazy extension: 1.50 \
                 (0.91 to 2.22), MISSED",
            ]
        );
    }

    /// A mark of a subject that is called otherwise would never be judged.
    #[test]
    fn every_name_is_that_of_a_subject() {
        let subjects: Vec<_> = { tickless_peers::subjects().into_iter() }
            .map(|(name, _)| name)
            .collect();
        let names = super::MARKS
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
        assert!(sentences(&finished(Vec::new())).is_empty());
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
        assert_eq!(judged[0].of, LAZY_EXTENSION);
        assert!(judged[0].holds, "{judged:?}");
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
        assert!(flat.holds, "{flat:?}");
        assert!(!grown(131.0)[0].holds);
        let tokio = of(churn, MOST, TOKIO, [1.0; 3]);
        assert_eq!(judge(&finished(vec![tokio])), []);
    }
}
