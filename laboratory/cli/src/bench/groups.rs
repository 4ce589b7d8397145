//! Groups of rows that can be compared: the same operation, with the same numbers of pending timers and threads.

use tickless_peers::{Family, Missing, Operation, Plan, Results, Row, TOKIO};

use crate::machine::Machine;
use crate::units;

/// A finished run: its plan, its rows and its remarks.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) plan: Plan,
    pub(super) machine: Machine,
    pub(super) results: Results,
    pub(super) missing: Vec<Missing>,
    /// Remarks for the reader, for example about measurements that were left out.
    pub(super) notes: Vec<String>,
}

/// The figures of all subjects for one operation under the same conditions.
#[derive(Clone, Debug)]
pub(super) struct Group<'r> {
    pub(super) operation: Operation,
    pub(super) pending: u64,
    pub(super) threads: u32,
    pub(super) rows: Vec<&'r Row>,
}

/// Returns all groups, in the order of the rows.
pub(super) fn all(finished: &Finished) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &finished.results.rows {
        match groups.last_mut() {
            Some(group) if group.holds(row) => group.rows.push(row),
            _ => groups.push(Group {
                operation: row.operation,
                pending: row.pending,
                threads: row.threads,
                rows: vec![row],
            }),
        }
    }
    groups
}

impl<'r> Group<'r> {
    fn holds(&self, row: &Row) -> bool {
        (self.operation, self.pending, self.threads) == (row.operation, row.pending, row.threads)
    }

    /// Returns the cheapest of the rows for which `is_meant` is true.
    pub(super) fn best(&self, is_meant: impl Fn(&Row) -> bool) -> Option<&'r Row> {
        let rows = self.rows.iter().copied().filter(|row| is_meant(row));
        rows.min_by(|one, other| one.figure().median.total_cmp(&other.figure().median))
    }

    /// Returns the cheapest row of the other libraries, without the limits.
    pub(super) fn best_peer(&self) -> Option<&'r Row> {
        self.best(|row| matches!(row.family, Family::Tokio | Family::Peer))
    }

    pub(super) fn tokio(&self) -> Option<&'r Row> {
        self.rows.iter().find(|row| row.subject == TOKIO).copied()
    }

    pub(super) fn of(&self, subject: &str) -> Option<&'r Row> {
        self.rows.iter().find(|row| row.subject == subject).copied()
    }

    /// Returns the operation and its conditions: `churn, 1,000 pending`.
    pub(super) fn title(&self) -> String {
        format!("{}, {}", self.operation.name(), self.conditions())
    }

    /// Describes the numbers of timers and threads.
    pub(super) fn conditions(&self) -> String {
        let count = units::count(self.pending);
        let what = if self.operation == Operation::Expire {
            "due"
        } else {
            "pending"
        };
        match self.threads {
            1 => format!("{count} {what}"),
            threads => format!("{count} {what}, {threads} threads"),
        }
    }
}

/// Formats a figure with its unit, and a star if it is unsteady.
pub(super) fn figure(row: &Row) -> String {
    let figure = row.figure();
    let star = if figure.is_wide() { "*" } else { "" };
    format!("{}{star}", units::digits(figure.median))
}

/// The definition of a ratio.
pub(super) const RATIO_NOTE: &str =
    "A ratio is the row's figure / that of tokio, or of the cheapest peer: below 1 is better.";

/// Formats the ratio of `row` to another row.
pub(super) fn ratio(row: &Row, to: Option<&Row>) -> String {
    to.filter(|to| to.figure().median > 0.0).map_or_else(
        || "-".to_owned(),
        |to| {
            format!(
                "{}x",
                units::digits(row.figure().median / to.figure().median)
            )
        },
    )
}

/// Returns the unit of an operation's figures.
pub(super) fn unit(operation: Operation) -> &'static str {
    if operation == Operation::Memory {
        "bytes"
    } else {
        "ns"
    }
}
