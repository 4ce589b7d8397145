//! The page of the demo: plots, sentences and tables.

use std::ops::Range;

use maud::{Markup, html};

use super::extent;
use super::result::Outcome;
use super::subject::Arm;
use super::table;
use super::tally::{Late, Part, Totals};
use crate::failure::Failure;
use crate::plot::{self, Curve};
use crate::{page, units};

/// The warning of a build without optimisation.
pub(super) const UNOPTIMISED: &str =
    "Built without optimisation: the figures are not those of the library.";

/// Returns the whole page: the plot of the paced ticks first, then the sentences, and then all figures.
pub(super) fn page(outcome: &Outcome) -> Result<String, Failure> {
    let (settings, totals) = (&outcome.settings, &outcome.totals);
    let kinds: [fn(&Part) -> &Late; 3] =
        [|part| &part.paced, |part| &part.idle, |part| &part.header];
    let [paced, idle, header] = kinds.map(|of| tails(totals, of));
    let across = plot::times(&[&*paced, &idle, &header].concat());
    let (pace, idle_time, header_time) = (
        units::time(settings.pace),
        units::time(settings.idle),
        units::time(settings.header),
    );
    let slack = settings.slack;
    let body = html! {
        p.lead {
            "tickless demo " (outcome.tickless_version) ": " (extent(outcome)) "; a tick every " (pace)
            ", idle timeouts of " (idle_time) ", header timeouts of " (header_time) ", a slack of "
            (slack.map_or("a thousandth".to_owned(), units::time)) "."
        }
        @if outcome.interrupted {
            p.note { "The run was ended early, after " (format!("{:.1} s", outcome.took_s)) "." }
        }
        @for check in outcome.checks.iter().filter(|check| !check.holds) {
            p.note { "FAILED: " (check.name) " (" (check.detail) ")." }
        }
        (legend())
        (figure(&paced, &across, &format!("Paced ticks, every {pace}: the share of ticks that were at least so late. \
            Further left and further down is better."))?)
        h2 { "What it says" }
        ul { @for sentence in table::sentences(totals) { li { (sentence) } } }
        details.all {
            summary { "All figures" }
            @for (heading, grid) in table::tables(totals, &outcome.checks) {
                p { (heading) "." }
                (grid.html())
            }
            h2 { "How late timeouts were" }
            (legend())
            (figure(&idle, &across, &format!("Idle timeouts of {idle_time}: each re-armed by every request, fired for \
                those that fell silent."))?)
            (figure(&header, &across, &format!("Header timeouts of {header_time}, through hyper's timer interface: \
                fired for those that never finished a header."))?)
        }
        h2 { "How to read it" }
        (reading())
        h2 { "What ran" }
        table.facts { tbody {
            @for arm in Arm::ALL { tr { th scope="row" { (arm.name()) } td { (arm.what()) } } }
        } }
        p { (outcome.machine.summary()) "; " (outcome.date) }
        @if cfg!(debug_assertions) { p { (UNOPTIMISED) } }
    };
    let heading = "The same server, with tokio::time and with tickless::time";
    Ok(page::page(heading, &body))
}

/// Names the arm of each line.
fn legend() -> Markup {
    html! {
        p.legend { @for arm in Arm::ALL { span class=(arm.ink().class) { (arm.name()) } } }
    }
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
    Ok(page::figure(plot::tails(curves, across)?, caption))
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
