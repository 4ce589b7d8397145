//! The points as a page: the effect of each parameter, and all points.

use maud::{Markup, html};
use serde_json::Value;

use super::file::Sweep;
use super::point::{Point, shown};
use super::row::Row;
use super::{cells, share};
use crate::failure::Failure;
use crate::page::{figure, page};
use crate::plot::{self, Bar, TICKLESS};
use crate::{table, units};

/// A parameter with more values is in the table only.
const VALUES_MAX: usize = 16;
/// A bar chart: a caption, the fields of a row of which the largest counts, and the format.
type Shown = (&'static str, &'static [&'static str], fn(f64) -> String);
const FIGURES: [Shown; 4] = [
    (
        "Exact timers late, p99",
        &["late_exact_p99_ns"],
        units::nanos,
    ),
    ("CPUs woken", &["wakes"], |wakes| format!("{wakes:.1}")),
    ("Time that CPUs idled", &["idle_percent"], |share| {
        format!("{share:.1} %")
    }),
    (
        "Coarse timers late, p99",
        &["late_own_p99_ns", "late_remote_p99_ns"],
        units::nanos,
    ),
];

/// The whole page.
pub(super) fn of(sweep: &Sweep, points: &[&Point], rows: &[Row]) -> Result<String, Failure> {
    let (head, lines) = cells(sweep, points, rows);
    let broken = rows.iter().filter(|row| !row.holds).count() as u64;
    let body = html! {
        p.lead { (share(sweep, points)) @if broken == 0 { ". Every promise was kept." } }
        @if broken > 0 { ul.checks { li.failed {
            "A promise was broken in " (units::counted(broken, "point")) ", as the last column says."
        } } }
        h2 { "What each parameter changes" }
        @for name in sweep.names.iter().filter(|name| *name != "seed") { (effect(name, points, rows)?) }
        p.note { "Means over all points with the value." }
        h2 { "All points" }
        (table::html(&head, 1 + sweep.names.len(), &lines))
        p.note { "Coarse timers are late by up to a tick and what their distance allows; exact ones by what the \
            machine takes." }
    };
    Ok(page(&format!("Swept: {}", sweep.name), &body))
}

/// Bars for the values of the parameter `name`; nothing if it has only one, or too many.
fn effect(name: &str, points: &[&Point], rows: &[Row]) -> Result<Markup, Failure> {
    let mut values: Vec<(String, Vec<&Row>)> = Vec::new();
    for (point, row) in points.iter().zip(rows) {
        let value = point.values.iter().find(|(known, _)| known == name);
        let value = value.map_or_else(String::new, |(_, value)| shown(value));
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, rows)) => rows.push(row),
            None => values.push((value, vec![row])),
        }
    }
    if !(2..=VALUES_MAX).contains(&values.len()) {
        return Ok(html! {});
    }
    let mut panels = Vec::new();
    for (caption, fields, written) in FIGURES {
        let bars = values.iter().map(|(value, rows)| {
            let mean = mean(rows, fields);
            Bar {
                ink: TICKLESS[0],
                name: value.clone(),
                value: mean,
                text: written(mean),
            }
        });
        let bars: Vec<Bar> = bars.collect();
        // Nothing to see where the figure is zero, or is not in these rows.
        if bars.iter().all(|bar| bar.value == 0.0) {
            continue;
        }
        let drawn = plot::bars(&bars)?;
        panels.push(figure(drawn, &html! { (caption) ", by " code { (name) } }));
    }
    Ok(html! { div.panels { @for panel in panels { (panel) } } })
}

/// The mean over `rows` of the largest of `fields`.
fn mean(rows: &[&Row], fields: &[&str]) -> f64 {
    let figure = |row: &&Row| {
        let fields = fields.iter().filter_map(|field| row.fields().get(*field));
        fields.filter_map(Value::as_f64).fold(0.0, f64::max)
    };
    rows.iter().map(figure).sum::<f64>() / rows.len() as f64
}
