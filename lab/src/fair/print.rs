//! The report of `tickless fair` as text, and its concluding sentences.

use super::result::{Late, PERIODIC, Row, SERVERS};
use super::{Finished, html, marks};
use crate::failure::Failure;
use crate::histogram::quantile;
use crate::report::Report;
use crate::spread::{Outcome, ROUNDS_MIN, Spread};
use crate::table::Grid;
use crate::units;

/// Returns the findings of the run.
pub(super) fn report(finished: &Finished<'_>) -> Result<Report, Failure> {
    let tables = tables(finished).into_iter();
    let subjects = finished.rows.iter().map(|row| row.subject);
    Ok(Report {
        heading: "Who gets how much",
        lead: title(finished),
        machine: finished.machine.summary(),
        complaints: finished.rows.iter().filter_map(Row::complaint).collect(),
        tables: tables
            .map(|(heading, grid)| (heading.into(), grid))
            .collect(),
        conclusions: conclusions(finished),
        marks: marks::of(finished.plan, &finished.rows),
        subjects: subjects
            .map(|subject| {
                let (name, explanation) = (subject.name(), subject.explanation());
                (name.to_owned(), explanation.to_owned())
            })
            .collect(),
        graphic: html::of(finished)?,
    })
}

/// Describes the run on one line.
fn title(finished: &Finished<'_>) -> String {
    let (plan, mix) = (finished.plan, &finished.plan.mix);
    let mut parts = Vec::new();
    if mix.hogs > 0 {
        let tasks = units::counted(mix.hogs as u64, "task");
        parts.push(format!(
            "{tasks} that compute, weights {}",
            weights(&mix.hog_weights)
        ));
    }
    if mix.servers.count > 0 {
        parts.push(format!(
            "{} (weight {}, {} requests a second, {} each)",
            units::counted(mix.servers.count as u64, "server"),
            mix.servers.weight,
            mix.servers.rate,
            units::time(mix.servers.cost)
        ));
    }
    if mix.periodic.count > 0 {
        parts.push(format!(
            "{} (weight {}, each {}, for {})",
            units::counted(mix.periodic.count as u64, "periodic task"),
            mix.periodic.weight,
            units::time(mix.periodic.period),
            units::time(mix.periodic.cost)
        ));
    }
    format!(
        "tickless fair {}: {} on {}; {} of {} for each, seed {}{}",
        plan.preset.name(),
        parts.join(", "),
        units::counted(mix.workers as u64, "worker"),
        units::counted(plan.rounds.into(), "round"),
        units::time(plan.duration),
        plan.seed,
        if finished.interrupted {
            ", ended early"
        } else {
            ""
        }
    )
}

fn weights(weights: &[u32]) -> String {
    let words: Vec<String> = weights.iter().map(u32::to_string).collect();
    words.join(", ")
}

/// Returns the tables of a run, without those for which the mix has no tasks.
fn tables(finished: &Finished<'_>) -> Vec<(&'static str, Grid)> {
    let mix = &finished.plan.mix;
    let mut tables = Vec::new();
    let rows: Vec<&Row> = finished
        .rows
        .iter()
        .filter(|row| !row.parts.is_empty())
        .collect();
    if mix.hogs > 0 {
        tables.push((
            "Shares of tasks that compute: how far from what their weights entitle them to",
            Grid {
                head: vec![
                    "runtime",
                    "checkpoint",
                    "weights",
                    "worst weight",
                    "worst task",
                    "mean",
                    "lag at most",
                ],
                left: 3,
                rows: rows.iter().map(|row| shares(row)).collect(),
                note: "",
            },
        ));
    }
    if mix.periodic.count > 0 {
        tables.push(("How late periodic tasks woke", lateness(&rows, PERIODIC)));
    }
    if mix.servers.count > 0 {
        tables.push((
            "How late servers took up requests, queueing behind each other included",
            lateness(&rows, SERVERS),
        ));
    }
    tables.push((
        "Processor time of the whole process, what of it tasks computed, and how long the machine kept a task at once",
        Grid {
            head: vec!["runtime", "CPUs", "computed", "a chunk at most"],
            left: 1,
            rows: rows.iter().map(|row| cost(row)).collect(),
note: "",
        },
    ));
    tables
}

fn shown(spread: Option<Spread>, show: impl Fn(f64) -> String) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| spread.show(show))
}

fn shares(row: &Row) -> Vec<String> {
    vec![
        row.subject.name().to_owned(),
        row.subject.checkpoint().to_owned(),
        if row.subject.has_weights() {
            "yes"
        } else {
            "no"
        }
        .to_owned(),
        shown(row.worst_weight(), units::percent),
        shown(row.worst(), units::percent),
        shown(row.mean(), units::percent),
        shown(row.lag(), units::nanos),
    ]
}

fn lateness(rows: &[&Row], of: Late) -> Grid {
    let row = |row: &&Row| {
        let all = row.merged(of);
        let max = (!all.is_empty()).then(|| all.max());
        let figure = |nanos: Option<u64>| {
            nanos.map_or_else(|| "-".to_owned(), |nanos| units::nanos(nanos as f64))
        };
        vec![
            row.subject.name().to_owned(),
            units::count(all.len()),
            figure(quantile(&all, 0.5)),
            figure(quantile(&all, 0.99)),
            figure(quantile(&all, 0.999)),
            figure(max),
            shown(row.quantile(of, 0.99), units::nanos),
        ]
    };
    Grid {
        head: vec![
            "runtime",
            "times",
            "p50",
            "p99",
            "p99.9",
            "max",
            "p99 of rounds",
        ],
        left: 1,
        rows: rows.iter().map(row).collect(),
        note: "",
    }
}

fn cost(row: &Row) -> Vec<String> {
    vec![
        row.subject.name().to_owned(),
        shown(row.processors(), |cpus| format!("{cpus:.2}")),
        shown(row.work(), units::percent),
        shown(row.longest(), units::nanos),
    ]
}

/// A figure by which runtimes are compared.
struct Metric {
    /// The name of the figure, which is less, or more, than with the other runtime.
    what: &'static str,
    less_is_better: bool,
    of: fn(&Row) -> Option<Spread>,
    show: fn(f64) -> String,
}

const METRICS: [Metric; 4] = [
    Metric {
        what: "error of the worst task's share",
        less_is_better: true,
        of: |row| row.worst().filter(|_| is_shared(row)),
        show: units::percent,
    },
    Metric {
        what: "p99.9 of periodic wake-ups",
        less_is_better: true,
        of: |row| row.quantile(PERIODIC, 0.999),
        show: units::nanos,
    },
    Metric {
        what: "p99 of servers",
        less_is_better: true,
        of: |row| row.quantile(SERVERS, 0.99),
        show: units::nanos,
    },
    Metric {
        what: "work for the same processor time",
        less_is_better: false,
        of: Row::work,
        show: units::percent,
    },
];

/// Returns true if several tasks share the time: a task alone gets everything, on any runtime.
fn is_shared(row: &Row) -> bool {
    row.parts.iter().any(|part| part.shares.len() > 1)
}

/// Returns the conclusions: a sentence or two for each other runtime, by rule. Losses are named as gains are.
pub(super) fn conclusions(finished: &Finished<'_>) -> Vec<String> {
    let ran = |row: &&Row| !row.parts.is_empty();
    let Some(ours) = finished
        .rows
        .iter()
        .filter(ran)
        .find(|row| row.subject.is_ours())
    else {
        return vec!["Nothing to compare with: tickless did not run.".to_owned()];
    };
    let mut sentences = Vec::new();
    for row in &finished.rows {
        if !row.holds() {
            sentences.push(format!(
                "{} failed: {} early, {} got nothing.",
                row.subject.name(),
                units::counted(row.early(), "tick"),
                units::counted(row.starved() as u64, "task")
            ));
        }
    }
    let others = finished.rows.iter().filter(ran);
    for other in others.filter(|row| row.subject != ours.subject) {
        sentences.extend(against(ours, other));
    }
    sentences.push(
        format!(
            "A difference counts if each round of one lies on the same side of each round of the other, and each has \
             {ROUNDS_MIN} rounds or more. A ratio is ours / theirs (theirs / ours where more is better): below 1 is \
             better."
        ),
    );
    sentences
}

fn against(ours: &Row, other: &Row) -> Vec<String> {
    let (mut better, mut worse, mut same, mut open) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for metric in &METRICS {
        let Some((mine, theirs)) = (metric.of)(ours).zip((metric.of)(other)) else {
            continue;
        };
        let figures = format!(
            "{} against {}",
            (metric.show)(mine.median),
            (metric.show)(theirs.median)
        );
        let is_better = match mine.compare(&theirs) {
            Outcome::Less(_) => metric.less_is_better,
            Outcome::More(_) => !metric.less_is_better,
            Outcome::NoDifference => {
                same.push(format!("{} ({figures})", metric.what));
                continue;
            }
            Outcome::TooFew => {
                open.push(format!("{} ({figures})", metric.what));
                continue;
            }
        };
        let (mine, theirs) = (mine.median, theirs.median);
        let ratio = if metric.less_is_better {
            mine / theirs
        } else {
            theirs / mine
        };
        let list = if is_better { &mut better } else { &mut worse };
        list.push(format!(
            "{} {} ({figures})",
            metric.what,
            units::ratio(ratio)
        ));
    }
    let (ours, other) = (ours.subject.name(), other.subject.name());
    let sentence = |verdict: &str, list: Vec<String>| {
        (!list.is_empty()).then(|| format!("{ours} is {verdict} {other}: {}.", list.join("; ")))
    };
    let open = (!open.is_empty()).then(|| {
        format!(
            "No verdict on {ours} and {other}, which takes {ROUNDS_MIN} rounds of each with the figure (--rounds): {}.",
            open.join("; ")
        )
    });
    [
        sentence("better than", better),
        sentence("worse than", worse),
        sentence("within the spread of rounds of", same),
        open,
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
