//! The report of the demo: tables, plots and sentences.

use std::ops::Range;

use maud::{Markup, html};

use super::arguments::Settings;
use super::result::{Check, Outcome};
use super::subject::{Arm, ServerKind};
use super::totals::{Late, Round, Total, Totals, median};
use super::{extent, quotable, table};
use crate::failure::Failure;
use crate::page::Number;
use crate::plot::{self, Bar, Curve, Dots};
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
    let mut conclusions = table::sentences(settings, &outcome.totals);
    conclusions.push(quotable::sentence(outcome.not_quotable.as_deref()));
    let arms = Arm::ALL.map(|arm| (arm.name().to_owned(), arm.what().to_owned()));
    Ok(Report {
        heading: "The same server, with tokio::time and with tickless::time",
        lead: format!(
            "tickless demo {}, seed {}: {}",
            outcome.tickless_version,
            settings.seed,
            extent(outcome)
        ),
        machine: format!("{}; {}", outcome.machine.summary(), outcome.date),
        complaints: ended
            .into_iter()
            .chain(failed)
            .chain(outcome.no_syscalls.as_deref().map(table::sentence_case))
            .collect(),
        tables: table::tables(outcome),
        conclusions,
        subjects: arms.into(),
        graphic: graphic(outcome)?,
        ..Report::default()
    })
}

/// Returns the plots and explanations: the paced ticks first, the others among the figures.
fn graphic(outcome: &Outcome) -> Result<Graphic, Failure> {
    let (settings, totals) = (&outcome.settings, &outcome.totals);
    let kinds: [fn(&Total) -> &Late; 3] = [
        |total| &total.paced,
        |total| &total.idle,
        |total| &total.header,
    ];
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
        (rounds(totals)?)
        h2 { "What it costs" }
        (costs(totals)?)
        h2 { "The load" }
        table.facts { tbody { @for (name, fact) in load(settings) {
            tr { th scope="row" { (name) } td { (fact) } }
        } } }
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
    type Of = fn(&Total) -> Option<f64>;
    type Show = fn(f64) -> String;
    let kinds: [(&str, Of, Show); 3] = [
        (
            "late at the median, of paced ticks, attached to the runtime's reactor",
            |total| total.paced.quantile(0.5).map(|nanos| nanos as f64),
            units::nanos,
        ),
        (
            "of one CPU, for the server and its timers",
            Total::load,
            table::percent,
        ),
        (
            "wake-ups a second",
            |total| total.rate(total.window.usage.wakeups),
            table::whole,
        ),
    ];
    let [ours, tokio] = [Arm::Reactor, Arm::Tokio].map(|arm| &totals[arm.index()]);
    let number = |(what, of, show): (&str, Of, Show)| {
        let (ours, tokio) = (of(ours)?, of(tokio)?);
        Some(Number {
            figure: show(ours),
            what: format!(
                "{what}; tokio {}, ratio {}",
                show(tokio),
                units::ratio(ours / tokio)
            ),
        })
    };
    kinds.into_iter().filter_map(number).collect()
}

/// Returns the curves of one kind of lateness, one for each arm that has values.
fn tails(totals: &Totals, of: impl Fn(&Total) -> &Late) -> Vec<Curve> {
    totals
        .iter()
        .zip(Arm::ALL)
        .map(|(total, arm)| Curve {
            name: arm.name().to_owned(),
            ink: arm.ink(),
            points: plot::tail_points(&of(total).histogram),
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

/// Draws the lateness of paced ticks over the run, and the difference between rounds.
fn rounds(totals: &Totals) -> Result<Markup, Failure> {
    type Of = fn(&Round) -> Option<u64>;
    let kinds: [(&str, Of); 4] = [
        ("Paced ticks, p50", |round| round.paced_p50_ns),
        ("Paced ticks, p99", |round| round.paced_p99_ns),
        ("Idle timeouts, p50", |round| round.idle_p50_ns),
        ("Idle timeouts, p99", |round| round.idle_p99_ns),
    ];
    let mut panels = Vec::new();
    let mut rows = Vec::new();
    for (kind, of) in kinds {
        let mut strips = Vec::new();
        for (total, arm) in totals.iter().zip(Arm::ALL) {
            let values: Vec<u64> = total.rounds.iter().filter_map(of).collect();
            let Some((low, high)) = values.iter().min().zip(values.iter().max()) else {
                continue;
            };
            let shown = |nanos: u64| units::nanos(nanos as f64);
            let ratio = *high as f64 / (*low).max(1) as f64;
            rows.push(vec![
                kind.to_owned(),
                arm.name().to_owned(),
                shown(*low),
                shown(*high),
                format!("{ratio:.2}"),
            ]);
            let middle = median(&values.iter().map(|value| *value as f64).collect::<Vec<_>>());
            strips.push(Dots {
                ink: arm.ink(),
                name: arm.name().to_owned(),
                values: values.iter().map(|value| *value as f64).collect(),
                text: middle.map_or_else(String::new, units::nanos),
            });
        }
        if !strips.is_empty() {
            let caption = html! { (kind) ": a dot for each round, and the median of the rounds" };
            panels.push(page::figure(plot::dots(&strips)?, &caption));
        }
    }
    if panels.is_empty() {
        return Ok(html! {});
    }
    let head = ["", "", "lowest", "highest", "highest / lowest"];
    Ok(html! {
        h2 { "Round by round" }
        div.panels { @for panel in panels { (panel) } }
        p { "How far rounds are apart: a difference between two libraries that is smaller is none." }
        (crate::table::html(&head, 2, &rows))
    })
}

/// Draws a panel of bars for each cost.
fn costs(totals: &Totals) -> Result<Markup, Failure> {
    type Of = fn(&Total) -> Option<f64>;
    type Show = fn(f64) -> String;
    let panels: [(&str, Of, Show); 5] = [
        (
            "Pushing a deadline out",
            |total| median(&total.push),
            units::nanos,
        ),
        (
            "Arming a timeout and dropping it",
            |total| median(&total.arm),
            units::nanos,
        ),
        (
            "Processor time of the server's threads, of one CPU",
            Total::load,
            table::percent,
        ),
        (
            "Wake-ups a second of the server's threads",
            |total| total.rate(total.window.usage.wakeups),
            table::whole,
        ),
        (
            "System calls a second of the server's threads",
            |total: &Total| total.syscalls,
            table::whole,
        ),
    ];
    let mut drawn = Vec::new();
    for (caption, of, show) in panels {
        let bars: Vec<Bar> = totals
            .iter()
            .zip(Arm::ALL)
            .filter_map(|(total, arm)| {
                let value = of(total)?;
                Some(Bar {
                    ink: arm.ink(),
                    name: arm.name().to_owned(),
                    value,
                    text: show(value),
                })
            })
            .collect();
        if !bars.is_empty() {
            drawn.push(page::figure(plot::bars(&bars)?, &html! { (caption) }));
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
            processor time with what they buy. The library's own thread takes two wake-ups for a timer of a tokio \
            task, the runtime's reactor one, and so does a Worker. Where a millisecond is good enough, a slack of one \
            says so, and timers share wake-ups. tokio's are late by up to two: it rounds a deadline up, and the time \
            that it waits for it too. " }
        p { b { "System calls " } "are counted by the kernel's tracer, in a round of its own. What is counted without \
            it is how often the library sets a runtime's timer file descriptor: tokio, and the library's own thread, \
            hand their next deadline to the system call that waits. " }
    }
}

/// Describes the load of the run.
fn load(settings: &Settings) -> [(&'static str, String); 6] {
    [
        (
            "Connections",
            format!(
                "{}, of which {} fall silent and {} never finish a header",
                units::count(settings.connections.into()),
                units::count(settings.silent.into()),
                units::count(settings.slow.into())
            ),
        ),
        (
            "Requests",
            format!(
                "{} a second, {} apart for each client",
                units::count(settings.requests_per_second.into()),
                units::time(settings.spacing)
            ),
        ),
        (
            "Timeouts",
            format!(
                "idle {}, header {}",
                units::time(settings.idle),
                units::time(settings.header)
            ),
        ),
        (
            "Paced sender",
            format!("a datagram every {}", units::time(settings.pace)),
        ),
        (
            "Rounds",
            format!(
                "{} of {} times {}, seed {}",
                settings.rounds,
                Arm::COUNT,
                units::time(settings.part),
                settings.seed
            ),
        ),
        (
            "Servers",
            format!(
                "{} threads for each of {}",
                settings.threads,
                ServerKind::ALL.len()
            ),
        ),
    ]
}
