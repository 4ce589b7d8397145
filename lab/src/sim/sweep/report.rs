//! The points of a sweep as an HTML page: the effect of each parameter, and all points.

use maud::{Markup, html};
use serde_json::Value;

use super::file::Sweep;
use super::point::{Point, shown};
use super::row::Row;
use super::{cells, share};
use crate::failure::Failure;
use crate::page::{Number, figure};
use crate::plot::{self, Bar, TICKLESS};
use crate::report::{Graphic, Report};
use crate::{shown, table, units};

/// The greatest number of values of a parameter that has a chart; a parameter with more values is in the table only.
const VALUES_MAX: usize = 16;
/// A bar chart: its caption, the fields of a row of which the largest is shown, and the format.
type Shown = (&'static str, &'static [&'static str], fn(f64) -> String);
const EXACT: &[&str] = &["late_exact_p99_ns"];
const COARSE: &[&str] = &["late_own_p99_ns", "late_remote_p99_ns"];
const FIGURES: [Shown; 4] = [
    ("Exact timers late, p99", EXACT, units::nanos),
    ("CPUs woken", &["wakes"], |wakes| format!("{wakes:.1}")),
    ("Time that CPUs idled", &["idle_percent"], |share| {
        format!("{share:.1} %")
    }),
    ("Coarse timers late, p99", COARSE, units::nanos),
];

/// Returns the whole page.
pub(super) fn of(sweep: &Sweep, points: &[&Point], rows: &[Row]) -> Result<String, Failure> {
    let (head, lines) = cells(sweep, points, rows);
    let broken = rows.iter().filter(|row| !row.holds).count() as u64;
    let mut plots = Vec::new();
    for name in sweep.names.iter().filter(|name| *name != "seed") {
        plots.push(effect(name, points, rows)?);
    }
    let conclusion = if broken == 0 {
        "Every promise was kept.".to_owned()
    } else {
        let points = units::counted(broken, "point");
        format!("A promise was broken in {points}, as the last column of the table says.")
    };
    let report = Report {
        heading: "Swept",
        lead: format!("{}: {}", shown::line(&sweep.name), share(sweep, points)),
        machine: format!("Simulated by tickless {}.", env!("CARGO_PKG_VERSION")),
        conclusions: vec![conclusion],
        graphic: Graphic {
            numbers: numbers(rows, broken),
            plots: Some(html! {
                h2 { "What each parameter changes" }
                @for plot in &plots { (plot) }
                p.note { "Means over all points with the value." }
            }),
            figures: Some(table::html(&head, 1 + sweep.names.len(), &lines)),
            reading: Some(html! { p {
                "Coarse timers are late by up to a tick and what their distance allows; exact ones by what the \
                machine takes."
            } }),
        },
        ..Report::default()
    };
    Ok(report.page())
}

/// Returns the figures at the top of the page: the two kinds of timers at their worst point, and broken promises.
fn numbers(rows: &[Row], broken: u64) -> Vec<Number> {
    let latest = |fields: &[&str]| {
        let figures = rows.iter().map(|row| largest(row, fields));
        units::nanos(figures.fold(0.0, f64::max))
    };
    vec![
        Number {
            figure: latest(EXACT),
            what: "late, p99 of exact timers, in the worst point".to_owned(),
        },
        Number {
            figure: latest(COARSE),
            what: "late, p99 of coarse timers, in the worst point".to_owned(),
        },
        Number {
            figure: units::count(broken),
            what: format!(
                "of {} broke a promise",
                units::counted(rows.len() as u64, "point")
            ),
        },
    ]
}

/// Draws bars for the values of the parameter `name`; returns an empty part if it has only one value, or too many.
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

/// Returns the mean over `rows` of the largest of `fields`.
fn mean(rows: &[&Row], fields: &[&str]) -> f64 {
    let figures = rows.iter().map(|row| largest(row, fields));
    figures.sum::<f64>() / rows.len() as f64
}

/// Returns the largest of `fields` in `row`, or 0 if the row has none of them.
fn largest(row: &Row, fields: &[&str]) -> f64 {
    let fields = fields.iter().filter_map(|field| row.fields().get(*field));
    fields.filter_map(Value::as_f64).fold(0.0, f64::max)
}
