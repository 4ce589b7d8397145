//! The marks: what a figure of this library may be at most, as a multiple of another one or in nanoseconds.

use serde::Serialize;

use crate::groups::{clock, executor, lateness};
use crate::operation::Operation;
use crate::rounds::Spread;
use crate::run::{Plan, Results, Row};
use crate::subjects::{
    COARSE, COARSE_IN_C, COARSE_SLEEP, DELAY_QUEUE, EXACT, EXACT_IN_C, LINE, LISTS, SLEEP, TOKIO,
    TOKIO_UTIL,
};

/// A promised limit of a figure.
struct Mark {
    operation: Operation,
    /// The part of the operation.
    part: &'static str,
    /// The numbers of pending timers; none for an operation that has its own.
    pending: &'static [u64],
    subject: &'static str,
    limit: f64,
    /// The subject of which the figure may be a multiple; `None` if the limit is in nanoseconds.
    of: Option<&'static str>,
}

const fn ratio(
    operation: Operation,
    pending: &'static [u64],
    (subject, limit, of): (&'static str, f64, &'static str),
) -> Mark {
    Mark {
        operation,
        part: "",
        pending,
        subject,
        limit,
        of: Some(of),
    }
}

const fn part(
    operation: Operation,
    part: &'static str,
    subject: &'static str,
    limit: f64,
    of: Option<&'static str>,
) -> Mark {
    Mark {
        operation,
        part,
        pending: &[],
        subject,
        limit,
        of,
    }
}

const FEW: &[u64] = &[0, 1_000];
const MANY: &[u64] = &[100_000, 1_000_000];
const SOME: &[u64] = &[1_000, 1_000_000];

#[rustfmt::skip]
const MARKS: [Mark; 30] = [
    ratio(Operation::ArmCancel, FEW, (SLEEP, 0.5, TOKIO)),
    ratio(Operation::ArmCancel, MANY, (SLEEP, 0.25, TOKIO)),
    // What the sorted queue alone could not do.
    ratio(Operation::ArmCancel, &[1_000_000], (SLEEP, 1.3, COARSE_SLEEP)),
    ratio(Operation::ArmCancel, SOME, (COARSE, 2.0, LISTS)),
    ratio(Operation::PushSmall, SOME, (EXACT, 1.5, LINE)),
    ratio(Operation::ArmCancel, SOME, (DELAY_QUEUE, 0.4, TOKIO_UTIL)),
    ratio(Operation::PushRandom, SOME, (DELAY_QUEUE, 0.4, TOKIO_UTIL)),
    ratio(Operation::Churn, SOME, (DELAY_QUEUE, 0.4, TOKIO_UTIL)),
    ratio(Operation::Expire, SOME, (DELAY_QUEUE, 0.4, TOKIO_UTIL)),
    ratio(Operation::ArmCancel, SOME, (EXACT_IN_C, 1.15, EXACT)),
    ratio(Operation::ArmCancel, SOME, (COARSE_IN_C, 1.15, COARSE)),
    part(Operation::BehindSleeps, "", "tickless", 1.0, Some(TOKIO)),
    part(Operation::Handover, "arm, 16 at a time", "tickless", 1.0, Some(TOKIO)),
    part(Operation::Handover, "drop, 16 at a time", "tickless", 1.0, Some(TOKIO)),
    part(Operation::Handover, "arm, 1,000 at a time", "tickless", 1.0, Some(TOKIO)),
    part(Operation::Handover, "drop, 1,000 at a time", "tickless", 1.0, Some(TOKIO)),
    part(Operation::Handover, "arm, 16,000 at a time", "tickless", 1.0, Some(TOKIO)),
    part(Operation::Handover, "drop, 16,000 at a time", "tickless", 1.0, Some(TOKIO)),
    part(Operation::Clock, clock::BOUND, "tickless", 1.15, Some(clock::COUNTER)),
    part(Operation::Clock, clock::TIME, "tickless", 1.15, Some(clock::COUNTER)),
    part(Operation::Clock, clock::TIME, "tickless", 0.7, Some(clock::STD)),
    part(Operation::Clock, clock::TIME, "tickless", 1.0, Some(clock::QUANTA)),
    part(Operation::Executor, executor::EMPTY, "tickless", 1.2, Some(executor::TOKIO)),
    part(Operation::Executor, executor::SWITCH, "tickless", 1.2, Some(executor::TOKIO)),
    part(Operation::Executor, executor::PAIRS, "tickless", 1.05, Some(executor::WITHOUT)),
    part(Operation::Executor, executor::LATE, "tickless", 0.05, Some(executor::TOKIO)),
    part(Operation::Lateness, "p50", lateness::ATTACHED, 1.5, Some(lateness::BARE)),
    part(Operation::Lateness, "p50", lateness::FROM_INSIDE_TOKIO, 30_000.0, None),
    part(Operation::Lateness, "p99", lateness::SPINS, 1_000.0, None),
    part(Operation::Lateness, "p99", "tickless", 1.2, Some(lateness::BARE)),
];

/// A mark with its result.
#[derive(Clone, Debug, Serialize)]
pub struct Marked {
    /// The name of the operation, and its part.
    pub op: &'static str,
    /// The part of the operation; empty for most.
    pub part: &'static str,
    /// The number of pending timers.
    pub pending: u64,
    /// The subject that has the mark.
    pub subject: &'static str,
    /// The subject of which the figure is a multiple; `None` if it is in nanoseconds.
    pub of: Option<&'static str>,
    /// The most that the figure may be.
    pub limit: f64,
    /// The ratio, taken round by round, or the nanoseconds.
    pub figure: Spread,
}

impl Marked {
    /// Returns true if the median is within the limit.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.figure.median <= self.limit
    }
}

/// Returns the marks whose figures were measured.
#[must_use]
pub fn marks(results: &Results) -> Vec<Marked> {
    let mut all = Vec::new();
    for mark in &MARKS {
        let is_meant = |row: &&Row| {
            row.operation == mark.operation
                && row.part == mark.part
                && (mark.pending.is_empty() || mark.pending.contains(&row.pending))
        };
        let rows = results.rows.iter().filter(is_meant);
        for row in rows.clone().filter(|row| row.subject == mark.subject) {
            let is_other = |other: &&Row| {
                Some(other.subject) == mark.of
                    && (other.pending, other.threads) == (row.pending, row.threads)
            };
            let figure = match mark.of {
                None => Some(row.figure()),
                Some(_) => rows.clone().find(is_other).map(|other| row.ratio(other)),
            };
            all.extend(figure.map(|figure| Marked {
                op: row.op,
                part: mark.part,
                pending: row.pending,
                subject: mark.subject,
                of: mark.of,
                limit: mark.limit,
                figure,
            }));
        }
    }
    all
}

/// Returns a plan that measures what has a mark, and no more.
#[must_use]
pub fn plan_of_marks(rounds: u32, repeats: u64, seed: u64) -> Plan {
    let subjects = MARKS.iter().flat_map(|mark| [Some(mark.subject), mark.of]);
    Plan {
        operations: MARKS.iter().map(|mark| mark.operation).collect(),
        pending: vec![0, 1_000, 100_000, 1_000_000],
        rounds,
        repeats,
        seed,
        subjects: Some(subjects.flatten().collect()),
    }
}
