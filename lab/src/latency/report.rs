//! The result as a page.

use maud::html;

use super::{Finished, print};
use crate::failure::Failure;
use crate::histogram::quantile;
use crate::machine::Machine;
use crate::page::{figure, legend, page};
use crate::plot::{self, Curve};
use crate::{table, units};

/// The whole page.
pub(super) fn of(finished: &Finished<'_>) -> Result<String, Failure> {
    let subjects = &finished.plan.subjects;
    let mut plots = Vec::new();
    let inks = plot::inks(subjects.iter().map(|subject| subject.family()));
    let places: Vec<usize> = (0..subjects.len()).collect();
    for places in places.chunks(CURVES_MAX) {
        let curves = places.iter().map(|&place| Curve {
            name: subjects[place].name().to_owned(),
            ink: inks[place],
            points: plot::tail_points(&merged(finished, place)),
        });
        let curves: Vec<Curve> = curves.filter(|curve| !curve.points.is_empty()).collect();
        if !curves.is_empty() {
            plots.push(curves);
        }
    }
    let across = plot::times(&plots.concat());
    let drawn = plots.iter().map(|curves| plot::tails(curves, &across));
    let drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    let body = html! {
        p.lead { "How late threads woke up that wait for a time, again and again. Lower and further left is better." }
        h2 { "Threads" }
        (table::html(&HEAD, 2, &rows(finished)))
        h2 { "How late" }
        @for (curves, drawn) in plots.iter().zip(drawn) {
            (legend(curves.iter().map(|curve| (curve.ink, &*curve.name))))
            (figure(drawn, &html! { "The share of wake-ups that were at least so late, of all threads together." }))
        }
        table.facts { tbody { @for subject in subjects {
            tr { th scope="row" { (subject.name()) } td { (subject.explanation()) } }
        } } }
        @if finished.broken.is_some() { h2 { "Stopped" } pre { (print::broken(finished)) } }
        h2 { "What ran" }
        p { (Machine::read().summary()) }
        @if cfg!(debug_assertions) {
            p { "Built without optimisation: the figures are not the library's." }
        }
    };
    Ok(page("Latency", &body))
}

/// The number of curves that can be told apart in a plot.
const CURVES_MAX: usize = 7;

const HEAD: [&str; 9] = [
    "waits with",
    "thread",
    "priority",
    "interval",
    "cycles",
    "min",
    "p50",
    "p99",
    "max",
];

fn rows(finished: &Finished<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (place, subject) in finished.plan.subjects.iter().enumerate() {
        for (number, thread) in finished.threads.iter().enumerate() {
            let figures = &thread.figures[place];
            let snapshot = figures.counts.snapshot();
            let shown = |nanos: Option<u64>| {
                nanos.map_or_else(|| "-".to_owned(), |nanos| units::nanos(nanos as f64))
            };
            rows.push(vec![
                subject.name().to_owned(),
                number.to_string(),
                thread.placement.priority.to_string(),
                units::time(thread.placement.interval),
                units::count(snapshot.cycles),
                shown(snapshot.min),
                shown(quantile(&figures.histogram, 0.5)),
                shown(quantile(&figures.histogram, 0.99)),
                shown(snapshot.min.map(|_| snapshot.max)),
            ]);
        }
    }
    rows
}

fn merged(finished: &Finished<'_>, place: usize) -> hdrhistogram::Histogram<u64> {
    let mut all = crate::histogram::new();
    for thread in &finished.threads {
        all += &thread.figures[place].histogram;
    }
    all
}
