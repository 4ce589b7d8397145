//! The result of a benchmark run as an HTML page.

use maud::{Markup, html};
use tickless_peers::{Family, Operation};

use super::groups::{self, Group, RATIO_NOTE, figure, range, ratio, unit};
use super::print::{column, names};
use super::{Finished, closing};
use crate::failure::Failure;
use crate::page::{Number, figure as plotted};
use crate::plot::Curve;
use crate::plot::costs::{self, Style};
use crate::report::{Graphic, Report};
use crate::table;
use crate::units;

/// Returns the whole page.
pub(super) fn of(finished: &Finished) -> Result<String, Failure> {
    let groups = groups::all(finished);
    let faults = finished.results.faults.iter();
    let faults =
        faults.map(|fault| format!("FAILED, and left out: {}: {}", fault.subject, fault.what));
    let missing = finished.missing.iter();
    let report = Report {
        heading: "What timers cost",
        lead: "What timers cost, subject by subject in one run, round by round in another order. Lower is better"
            .to_owned(),
        machine: finished.machine.summary(),
        complaints: finished.notes.iter().cloned().chain(faults).collect(),
        conclusions: closing::sentences(finished),
        subjects: missing
            .map(|missing| (format!("{}, missing", missing.subject), missing.why.to_string()))
            .collect(),
        graphic: Graphic {
            numbers: numbers(&groups),
            plots: Some(plots(&groups)?),
            reading: Some(reading(finished)),
            ..Graphic::default()
        },
        ..Report::default()
    };
    Ok(report.page())
}

/// Returns a part for each operation.
fn plots(groups: &[Group<'_>]) -> Result<Markup, Failure> {
    let mut parts = Vec::new();
    for operation in Operation::ALL {
        let groups: Vec<_> = { groups.iter() }
            .filter(|group| group.operation == operation)
            .collect();
        if !groups.is_empty() {
            parts.push(part(operation, &groups)?);
        }
    }
    Ok(html! {
        p.legend {
            span.tickless { "Tickless" } span.tokio { "tokio" } span.third { "limits" } span.other { "other peers" }
        }
        @for part in parts { (part) }
    })
}

fn reading(finished: &Finished) -> Markup {
    html! {
        p {
            "Medians of " (finished.plan.rounds) " rounds with " (units::count(finished.plan.repeats))
            " operations each, seed " (finished.plan.seed) ". A star is at figures whose greatest is more than twice "
            "the least. Limits do not fire: they are the least that is possible. " (RATIO_NOTE)
        }
    }
}

/// Returns the figures at the top of the page: for the first operations that tokio has, with the most timers, our
/// cheapest timer next to tokio's.
fn numbers(groups: &[Group<'_>]) -> Vec<Number> {
    const NUMBERS: usize = 3;
    let number = |operation| {
        let mut of = { groups.iter() }.filter(|group| group.operation == operation);
        let group = of.next_back()?;
        let ours = group.best(|row| row.family == Family::Tickless)?;
        let tokio = group.tokio()?;
        let unit = unit(operation);
        Some(Number {
            figure: format!("{} {unit}", figure(ours)),
            what: format!(
                "{}: {}; tokio {} {unit}, ratio {}",
                group.title(),
                ours.subject,
                figure(tokio),
                ratio(ours, Some(tokio))
            ),
        })
    };
    let all = Operation::ALL.into_iter().filter_map(number);
    all.take(NUMBERS).collect()
}

/// Returns the part of one operation: a plot if more than one number of pending timers was measured, and the figures.
fn part(operation: Operation, groups: &[&Group<'_>]) -> Result<Markup, Failure> {
    let data = figures(groups);
    let mut sizes: Vec<u64> = groups.iter().map(|group| group.pending).collect();
    sizes.dedup();
    let heading = capitalised(operation.explanation());
    if sizes.len() < 2 {
        return Ok(html! { h2 { (heading) } (data) });
    }
    let curves = names(groups).into_iter().map(|name| {
        let rows = groups.iter().filter_map(|group| group.of(name));
        let points = rows
            .clone()
            .map(|row| (costs::place(row.pending, &sizes), row.figure().median));
        let style = match rows.clone().next().map(|row| row.family) {
            Some(Family::Tickless) => Style::Tickless,
            Some(Family::Tokio) => Style::Tokio,
            Some(Family::Limit) => Style::Limit,
            Some(Family::Peer) | None => Style::Other,
        };
        Curve {
            name: name.to_owned(),
            ink: style.ink(),
            points: points.collect(),
        }
    });
    let drawn = costs::draw(&curves.collect::<Vec<_>>(), &sizes, unit(operation), data)?;
    let across = if operation == Operation::Expire {
        "due at once"
    } else {
        "pending"
    };
    Ok(html! {
        h2 { (heading) }
        (plotted(drawn, &html! { (operation.name()) ": " (unit(operation)) " over timers that are " (across)
            ", both logarithmic." }))
    })
}

/// Returns a table with all figures of an operation, and their ratios to tokio's and to the best peer's.
fn figures(groups: &[&Group<'_>]) -> Markup {
    let unit = unit(groups[0].operation);
    let head = [
        "subject",
        "with",
        unit,
        "least to greatest",
        "/ tokio",
        "/ best peer",
    ];
    let mut rows = Vec::new();
    for group in groups {
        for row in &group.rows {
            rows.push(vec![
                row.subject.to_owned(),
                column(group),
                figure(row),
                range(row.figure()),
                ratio(row, group.tokio()),
                ratio(row, group.best_peer()),
            ]);
        }
    }
    table::html(&head, 1, &rows)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
