//! The report of the demo: tables, plots and sentences.

use std::ops::Range;

use maud::{Markup, html};

use super::extent;
use super::result::{Check, Outcome};
use super::subject::Arm;
use super::table::{self, Row};
use super::tally::{Late, Part, Totals};
use crate::failure::Failure;
use crate::page::Number;
use crate::plot::{self, Bar, Curve};
use crate::report::{Graphic, Report};
use crate::{page, units};

/// Returns the findings of the run.
pub(super) fn of(outcome: &Outcome) -> Result<Report, Failure> {
    let settings = &outcome.settings;
    let ended = outcome
        .interrupted
        .then(|| format!("The run was ended early, after {:.1} s", outcome.took_s));
    let failed = outcome.checks.iter().filter(|check| !check.holds);
    let failed = failed.map(|Check { name, detail, .. }| format!("FAILED: {name} ({detail})"));
    let arms = Arm::ALL.map(|arm| (arm.name().to_owned(), arm.what().to_owned()));
    Ok(Report {
        heading: "The same server, with tokio::time and with tickless::time",
        lead: format!(
            "tickless demo {}: {}; a tick every {}, idle timeouts of {}, header timeouts of {}, a slack of {}",
            outcome.tickless_version,
            extent(outcome),
            units::time(settings.pace),
            units::time(settings.idle),
            units::time(settings.header),
            settings
                .slack
                .map_or("a thousandth".to_owned(), units::time)
        ),
        machine: format!("{}; {}", outcome.machine.summary(), outcome.date),
        complaints: ended.into_iter().chain(failed).collect(),
        tables: table::tables(outcome),
        conclusions: table::sentences(&outcome.totals),
        subjects: arms.into(),
        graphic: graphic(outcome)?,
    })
}

/// Returns the plots and explanations: the paced ticks first, the others among the figures.
fn graphic(outcome: &Outcome) -> Result<Graphic, Failure> {
    let (settings, totals) = (&outcome.settings, &outcome.totals);
    let kinds: [fn(&Part) -> &Late; 3] =
        [|part| &part.paced, |part| &part.idle, |part| &part.header];
    let [paced, idle, header] = kinds.map(|of| tails(totals, of));
    let across = plot::times(&[&*paced, &idle, &header].concat());
    let plots = html! {
        (legend())
        (figure(&paced, &across, &format!("Paced ticks, every {}: the share of ticks that were at least so \
            late. Further left and further down is better.", units::time(settings.pace)))?)
    };
    let figures = html! {
        h2 { "How late timeouts were" }
        (legend())
        (figure(&idle, &across, &format!("Idle timeouts of {}: each re-armed by every request, fired for \
            those that fell silent.", units::time(settings.idle)))?)
        (figure(&header, &across, &format!("Header timeouts of {}, through hyper's timer interface: fired \
            for those that never finished a header.", units::time(settings.header)))?)
        h2 { "What it costs" }
        (costs(totals)?)
    };
    Ok(Graphic {
        numbers: numbers(totals),
        plots: Some(plots),
        figures: Some(figures),
        reading: Some(reading()),
    })
}

/// Names the arm of each line.
fn legend() -> Markup {
    page::legend(Arm::ALL.map(|arm| (arm.ink(), arm.name())))
}

/// Returns the three figures at the top of the page: a lateness and two costs.
fn numbers(totals: &Totals) -> Vec<Number> {
    let kinds = [
        (
            "paced_p50_ns",
            "late at the median, of paced ticks, with nothing set up",
        ),
        ("cpu_percent", "of one CPU, for the server and its timers"),
        ("wakeups_per_second", "wake-ups a second"),
    ];
    let number = |(name, what): (&str, &str)| {
        let row = Row::named(name);
        Some(Number {
            figure: (row.show)(row.figure(totals, Arm::Tickless)?),
            what: format!(
                "{what}; tokio {}, ratio {}",
                (row.show)(row.figure(totals, Arm::Tokio)?),
                units::ratio(row.ratio(totals, Arm::Tickless)?)
            ),
        })
    };
    kinds.into_iter().filter_map(number).collect()
}

/// Returns the curves of one kind of lateness, one for each arm that has values.
fn tails(totals: &Totals, of: fn(&Part) -> &Late) -> Vec<Curve> {
    totals
        .iter()
        .zip(Arm::ALL)
        .map(|(total, arm)| Curve {
            name: arm.name().to_owned(),
            ink: arm.ink(),
            points: plot::tail_points(&of(&total.sum).histogram),
        })
        .filter(|curve| !curve.points.is_empty())
        .collect()
}

/// Draws the curves; returns an empty part if there are no curves.
fn figure(curves: &[Curve], across: &Range<f64>, caption: &str) -> Result<Markup, Failure> {
    if curves.is_empty() {
        return Ok(html! {});
    }
    Ok(page::figure(
        plot::tails(curves, across)?,
        &html! { (caption) },
    ))
}

/// Draws a panel of bars for each cost.
fn costs(totals: &Totals) -> Result<Markup, Failure> {
    let mut drawn = Vec::new();
    for name in [
        "push_ns",
        "arm_and_drop_ns",
        "cpu_percent",
        "wakeups_per_second",
    ] {
        let row = Row::named(name);
        let bars = Arm::ALL.into_iter().filter_map(|arm| {
            let value = row.figure(totals, arm)?;
            Some(Bar {
                ink: arm.ink(),
                name: arm.name().to_owned(),
                value,
                text: (row.show)(value),
            })
        });
        let bars: Vec<Bar> = bars.collect();
        if !bars.is_empty() {
            let caption = html! { (row.group) ": " (row.label) };
            drawn.push(page::figure(plot::bars(&bars)?, &caption));
        }
    }
    Ok(html! {
        div.panels { @for panel in drawn { (panel) } }
    })
}

fn reading() -> Markup {
    html! {
        p { b { "The load. " } "A real HTTP server (hyper on tokio) and its clients talk over loopback. Every \
            connection has an idle timeout, which each request re-arms, and a header timeout. Some clients fall \
            silent and some never finish a header: those are the timeouts that fire. Two clients ask for answers that \
            take longer than the idle timeout, which must not end them. Beside that a paced sender \
            sends a datagram at a fixed rate. " }
        p { b { "Side by side. " } "The load ran with each kind of timers, again and again in changing order. The \
            clients wait on tokio::time in all of them. What else the machine did hit all alike, but never equally: \
            figures beyond p99 are those of the machine as much as of the timers. A figure counts as better or worse \
            only if it was in each round than tokio's in any. " }
        p { b { "Late " } "is the time from the deadline to the moment at which the code behind it runs, by "
            code { "std::time::Instant" } ". Ticks that were missed are made up for at once, each late by its own \
            time, so a stall counts in full. " }
        p { b { "The curves " } "show how much of all was at least so late: where a curve crosses 1 % is its p99. \
            Further left and further down is better. " }
        p { b { "The price. " } "tokio's timers move in steps of a millisecond, so five ticks of 200 µs share a \
            wake-up. A program that wants each tick at its time pays for waking up for it: compare wake-ups and \
            processor time with what they buy. The runtime's reactor takes one wake-up for a timer of a task, and so \
            does a Worker; in a detached runtime the library's own thread takes two. Where a thousandth of the time \
            is good enough, slack in proportion says so, and timers share wake-ups. tokio's are late by up to two \
            milliseconds: it rounds a deadline up, and the time that it waits for it too. " }
    }
}
