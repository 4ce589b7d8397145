//! The result of `tickless latency` as an HTML page.

use maud::{Markup, html};

use super::{Finished, print};
use crate::failure::Failure;
use crate::histogram::quantile;
use crate::machine::Machine;
use crate::page::{Number, figure, legend};
use crate::plot::{self, Curve};
use crate::report::{Graphic, Report};
use crate::table::Grid;
use crate::units;

/// Returns the whole page.
pub(super) fn of(finished: &Finished<'_>) -> Result<String, Failure> {
    let broken = html! { h2 { "Stopped" } pre { (print::broken(finished)) } };
    let subjects = finished.plan.subjects.iter();
    let report = Report {
        heading: "Latency",
        lead: "How late threads woke up that wait for a time, again and again. Lower and further left is better"
            .to_owned(),
        machine: Machine::read().summary(),
        tables: vec![("Threads".into(), figures(finished))],
        subjects: subjects
            .map(|subject| (subject.name().to_owned(), subject.explanation().to_owned()))
            .collect(),
        graphic: Graphic {
            numbers: numbers(finished),
            plots: Some(tails(finished)?),
            figures: finished.broken.is_some().then_some(broken),
            ..Graphic::default()
        },
        ..Report::default()
    };
    Ok(report.page())
}

/// Returns the lateness of all threads of the first subject, each figure next to that of the second subject.
fn numbers(finished: &Finished<'_>) -> Vec<Number> {
    const SHARES: [(&str, Option<f64>); 3] =
        [("p50", Some(0.5)), ("p99", Some(0.99)), ("max", None)];
    let subjects = &finished.plan.subjects;
    let all: Vec<_> = (0..subjects.len().min(2))
        .map(|place| merged(finished, place))
        .collect();
    let late = |place: usize, share: Option<f64>| {
        let all = all.get(place)?;
        let max = || (!all.is_empty()).then(|| all.max());
        let nanos = share.map_or_else(max, |share| quantile(all, share))?;
        Some(units::nanos(nanos as f64))
    };
    let number = |(name, share)| {
        let beside = late(1, share).map(|late| format!("; {} {late}", subjects[1].name()));
        Some(Number {
            figure: late(0, share)?,
            what: format!(
                "late with {}, {name}{}",
                subjects[0].name(),
                beside.unwrap_or_default()
            ),
        })
    };
    SHARES.into_iter().filter_map(number).collect()
}

fn tails(finished: &Finished<'_>) -> Result<Markup, Failure> {
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
    Ok(html! {
        h2 { "How late" }
        @for (curves, drawn) in plots.iter().zip(drawn) {
            (legend(curves.iter().map(|curve| (curve.ink, &*curve.name))))
            (figure(drawn, &html! { "The share of wake-ups that were at least so late, of all threads together." }))
        }
    })
}

/// The greatest number of curves in a plot that a reader can distinguish.
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

fn figures(finished: &Finished<'_>) -> Grid {
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
    Grid {
        head: HEAD.to_vec(),
        left: 2,
        rows,
        note: "",
    }
}

fn merged(finished: &Finished<'_>, place: usize) -> hdrhistogram::Histogram<u64> {
    let mut all = crate::histogram::new();
    for thread in &finished.threads {
        all += &thread.figures[place].histogram;
    }
    all
}
