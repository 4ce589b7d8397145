//! The part of the report that only an HTML page has: plots and explanations.

use maud::{Markup, html};

use super::Finished;
use super::result::{Late, PERIODIC, Part, Row, SERVERS};
use super::runtime::Subject;
use crate::failure::Failure;
use crate::page::{Number, figure, legend};
use crate::plot::{self, Bar, Curve, Family, OTHERS};
use crate::report::Graphic;
use crate::spread::Spread;
use crate::units;

/// Returns the plots and explanations.
pub(super) fn of(finished: &Finished<'_>) -> Result<Graphic, Failure> {
    Ok(Graphic {
        numbers: numbers(finished),
        plots: Some(plots(finished)?),
        reading: Some(reading(finished)),
        ..Graphic::default()
    })
}

fn plots(finished: &Finished<'_>) -> Result<Markup, Failure> {
    let mix = &finished.plan.mix;
    Ok(html! {
        @if mix.hogs > 0 { (shares(finished)?) }
        @if mix.periodic.count > 0 {
            h2 { "How late periodic tasks woke" }
            (tails(finished, PERIODIC, "The share of ticks that were at least so late. What a task missed it makes up \
                for at once, each tick late by its own time.")?)
        }
        @if mix.servers.count > 0 {
            h2 { "How late servers took up requests" }
            (tails(finished, SERVERS, "The share of requests that were taken up at least so late, after another \
                thread had sent them.")?)
        }
        (costs(finished)?)
    })
}

/// Returns three figures of the first runtime of this library that ran, each next to tokio's, or to the next runtime's.
fn numbers(finished: &Finished<'_>) -> Vec<Number> {
    type Of = fn(&Row) -> Option<Spread>;
    type Show = fn(f64) -> String;
    let numbers: [(&str, Of, Show); 3] = [
        (
            "error of the worst task's share",
            Row::worst,
            units::percent,
        ),
        (
            "late at the p99 of periodic wake-ups",
            |row| row.quantile(PERIODIC, 0.99),
            units::nanos,
        ),
        (
            "of the processor time spent on the tasks' work",
            Row::work,
            units::percent,
        ),
    ];
    let Some(ours) = ran(finished).find(|row| row.subject.is_ours()) else {
        return Vec::new();
    };
    let others = || ran(finished).filter(|row| !row.subject.is_ours());
    let other = { others().find(|row| matches!(family(row.subject), Family::Tokio)) }
        .or_else(|| others().next());
    let number = |(what, of, show): (&str, Of, Show)| {
        let beside = other.and_then(|row| {
            let figure = show(of(row)?.median);
            Some(format!("; {} {figure}", row.subject.name()))
        });
        Some(Number {
            figure: show(of(ours)?.median),
            what: format!("{what}{}", beside.unwrap_or_default()),
        })
    };
    numbers.into_iter().filter_map(number).collect()
}

/// Returns the runtimes that ran.
fn ran<'f>(finished: &'f Finished<'_>) -> impl Iterator<Item = &'f Row> {
    finished.rows.iter().filter(|row| !row.parts.is_empty())
}

/// The largest number of tasks for which each task has a bar of its own; with more tasks, single bars show nothing.
const SINGLE: usize = 16;

/// Draws a panel of bars for each runtime: the share of each task, relative to its entitlement.
fn shares(finished: &Finished<'_>) -> Result<Markup, Failure> {
    let bars: Vec<(&Row, Vec<Bar>)> = ran(finished).map(|row| (row, bars_of(row))).collect();
    // One scale for all: a share is as long in each panel.
    let all = bars.iter().flat_map(|(_, bars)| bars);
    let longest = all.map(|bar| bar.value).fold(1.0, f64::max);
    let mut panels = Vec::new();
    for (row, bars) in &bars {
        let caption = html! { (row.subject.name()) ": " (row.subject.checkpoint()) };
        panels.push(figure(plot::bars_to(longest, Some(1.0), bars)?, &caption));
    }
    let each = if finished.plan.mix.hogs > SINGLE {
        "A bar is the mean of the tasks of a weight, with the range of single ones behind it."
    } else {
        "A bar is a task: the median of the rounds."
    };
    Ok(html! {
        h2 { "What tasks that compute got, of what they are entitled to" }
        p.legend { span.third { "within 2 % of it" } span.other { "further off" } }
        p { (each) " The line is at 100 %, which is fair. A task is never entitled to more than one worker." }
        div.panels { @for panel in panels { (panel) } }
    })
}

fn bars_of(row: &Row) -> Vec<Bar> {
    let Some(first) = row.parts.first() else {
        return Vec::new();
    };
    // What each task got in the median of the rounds, of its entitlement.
    let places = 0..first.shares.len();
    let got = |place: usize| {
        let of = |part: &Part| {
            part.shares
                .get(place)
                .map(|share| share.got / share.entitled)
        };
        Spread::of(row.parts.iter().filter_map(of)).map_or(0.0, |spread| spread.median)
    };
    let tasks: Vec<(u32, f64)> = places
        .map(|place| (first.shares[place].weight, got(place)))
        .collect();
    if tasks.len() <= SINGLE {
        let bars = tasks.iter().zip(1..).map(|(&(weight, got), number)| {
            bar(
                format!("{number}, weight {weight}"),
                got,
                units::percent(got),
            )
        });
        return bars.collect();
    }
    let mut weights: Vec<u32> = tasks.iter().map(|task| task.0).collect();
    weights.sort_unstable();
    weights.dedup();
    let of_weight = |weight: u32| {
        let got: Vec<f64> = tasks
            .iter()
            .filter(|task| task.0 == weight)
            .map(|task| task.1)
            .collect();
        let mean = got.iter().sum::<f64>() / got.len() as f64;
        let range = Spread::of(got).unwrap_or(Spread {
            median: mean,
            min: mean,
            max: mean,
            rounds: 0,
        });
        let text = format!("{:.0} to {:.0} %", range.min * 100.0, range.max * 100.0);
        bar(format!("weight {weight}"), mean, text)
    };
    weights.into_iter().map(of_weight).collect()
}

fn bar(name: String, got: f64, text: String) -> Bar {
    const NEAR: f64 = 0.02;
    let is_near = (got - 1.0).abs() <= NEAR;
    Bar {
        ink: OTHERS[if is_near { 0 } else { 3 }],
        name,
        value: got,
        text,
    }
}

/// Draws one plot for each of this library's runtimes, each with the others in it.
fn tails(finished: &Finished<'_>, of: Late, caption: &str) -> Result<Markup, Failure> {
    let inks = plot::inks(ran(finished).map(|row| family(row.subject)));
    let curves = ran(finished).zip(inks).map(|(row, ink)| {
        let curve = Curve {
            name: row.subject.name().to_owned(),
            ink,
            points: plot::tail_points(&row.merged(of)),
        };
        (row.subject.is_ours(), curve)
    });
    let curves: Vec<(bool, Curve)> = curves
        .filter(|(_, curve)| !curve.points.is_empty())
        .collect();
    let all: Vec<Curve> = curves.iter().map(|(_, curve)| curve.clone()).collect();
    if all.is_empty() {
        return Ok(html! {});
    }
    let across = plot::times(&all);
    let mut plots = Vec::new();
    for group in groups(&curves) {
        plots.push((plot::tails(&group, &across)?, group));
    }
    Ok(html! {
        @for (drawn, curves) in plots {
            (legend(curves.iter().map(|curve| (curve.ink, &*curve.name))))
            (figure(drawn, &html! { (caption) }))
        }
    })
}

/// The greatest number of curves in a plot that a reader can distinguish.
const CURVES_MAX: usize = 5;

/// Returns the colour family of a runtime.
fn family(subject: Subject) -> Family {
    if subject.is_ours() {
        Family::Tickless
    } else if subject.name().starts_with("tokio") {
        Family::Tokio
    } else {
        Family::Other
    }
}

/// Groups the curves by plot: the first plots show the first of ours with the others, [`CURVES_MAX`] curves at most in
/// each; a further plot shows all of ours.
fn groups(curves: &[(bool, Curve)]) -> Vec<Vec<Curve>> {
    let of = |ours: bool| {
        let chosen = curves.iter().filter(move |(is_ours, _)| *is_ours == ours);
        chosen.map(|(_, curve)| curve.clone()).collect::<Vec<_>>()
    };
    let (ours, others) = (of(true), of(false));
    let mut groups: Vec<Vec<Curve>> = Vec::new();
    let Some(first) = ours.first() else {
        return others.chunks(CURVES_MAX).map(<[_]>::to_vec).collect();
    };
    groups.extend(others.chunks(CURVES_MAX - 1).map(|others| {
        let mut group = vec![first.clone()];
        group.extend_from_slice(others);
        group
    }));
    if ours.len() > 1 || groups.is_empty() {
        groups.extend(ours.chunks(CURVES_MAX).map(<[_]>::to_vec));
    }
    groups
}

fn costs(finished: &Finished<'_>) -> Result<Markup, Failure> {
    type Of = fn(&Row) -> Option<Spread>;
    type Show = fn(f64) -> String;
    let panels: [(&str, Of, Show); 2] = [
        ("Processor time, in CPUs", Row::processors, |cpus| {
            format!("{cpus:.2}")
        }),
        (
            "What tasks computed, of the processor time",
            Row::work,
            units::percent,
        ),
    ];
    let mut drawn = Vec::new();
    for (caption, of, show) in panels {
        let inks = plot::inks(ran(finished).map(|row| family(row.subject)));
        let bars = ran(finished).zip(inks).filter_map(|(row, ink)| {
            let median = of(row)?.median;
            Some(Bar {
                ink,
                name: row.subject.name().to_owned(),
                value: median,
                text: show(median),
            })
        });
        let bars: Vec<Bar> = bars.collect();
        if !bars.is_empty() {
            drawn.push(figure(plot::bars(&bars)?, &html! { (caption) }));
        }
    }
    Ok(html! {
        h2 { "What it costs" }
        div.panels { @for panel in drawn { (panel) } }
    })
}

fn reading(finished: &Finished<'_>) -> Markup {
    let mix = &finished.plan.mix;
    html! {
        p { b { "The tasks. " } "Tasks that compute do so for " (units::time(mix.chunk)) " between two checkpoints. \
            What a checkpoint is differs: it is what the documentation of the runtime recommends for tasks that \
            compute for long, and each panel above names it. Runtimes without weights treat all tasks alike: their \
            errors are those of tasks that have weights all the same." }
        p { b { "Share. " } "The processor time of a task's chunks over that of all tasks that compute. What other \
            processes took from a worker counts for no task; nor does what the machine's host took, where it tells." }
        p { b { "Lag. " } "How much less, or more, than its entitlement a task had got at worst, at the end of one of \
            its chunks, in processor time. EEVDF bounds it on one worker by one request." }
        p { b { "Late " } "is the time from a deadline, or from when a request was sent, to the moment at which the \
            task runs." }
        p { b { "A chunk at most. " } "The longest time, by the clock, that a chunk took. For what is above its length \
            the machine kept the worker from all of its tasks: no runtime can serve them then." }
        p { b { "Computed. " } "What tasks computed, as the machine computes it undisturbed, of the processor time of \
            the whole process. It is below 100 % where another process or a sibling of the core slows the worker \
            down, on all runtimes alike." }
    }
}
