//! The claims as an HTML page.

use maud::{Markup, html};
use tickless_sim::headline::{Headline, Sensitivity, Tally};

use super::{Outcome, table, why};
use crate::failure::Failure;
use crate::page::{self, Number, figure, page};
use crate::plot::{self, Bar, OTHERS, TICKLESS};
use crate::units;

/// Returns the whole page.
pub(super) fn of(outcome: &Outcome) -> Result<String, Failure> {
    let mut panels = Vec::new();
    for headline in &outcome.headlines {
        panels.extend(panel(headline)?);
    }
    let body = html! {
        p.lead { (table::count(outcome)) " Seed " (outcome.seed) "." }
        (page::numbers(&numbers(outcome)))
        div.dense { (table::grid(outcome).html()) }
        @if !panels.is_empty() {
            h2 { "Without and with" }
            p.legend { span.other { "without" } span.tickless { "with" } }
            div.panels { @for panel in panels { (panel) } }
        }
        @for rows in outcome.sensitivity.iter().filter(|rows| !rows.is_empty()) { (sensitivity(rows)) }
        p.note { "The same seed gives the same figures, to the byte." }
        (page::all_figures(&html! {
            h2 { "What to make of it" }
            table.facts { tbody { @for headline in &outcome.headlines {
                tr { th scope="row" { (headline.id) } td { (why(headline)) } }
            } } }
        }))
    };
    Ok(page("What the sources claim, and what comes of it", &body))
}

/// Returns the numbers of claims, by verdict.
fn numbers(outcome: &Outcome) -> Vec<Number> {
    let tally = Tally::of(&outcome.headlines);
    let number = |count: usize, what: String| Number {
        figure: units::count(count as u64),
        what,
    };
    let claims = units::counted(outcome.headlines.len() as u64, "claim");
    let mut numbers = vec![
        number(tally.hold, format!("of {claims} hold")),
        number(tally.fail, "do not".to_owned()),
        number(
            tally.say_nothing,
            "would hold without the mechanism too, and so say nothing".to_owned(),
        ),
    ];
    if tally.not_yet > 0 {
        numbers.push(number(tally.not_yet, "cannot be tried yet".to_owned()));
    }
    numbers
}

/// Draws the figures of the source, if it has any, and the measured ones on one scale; returns `None` if there are no
/// figures to compare.
fn panel(headline: &Headline) -> Result<Option<Markup>, Failure> {
    let here = headline.measured.as_ref();
    let figures = [
        ("source without", headline.source.baseline, OTHERS[3]),
        ("source with", headline.source.with, TICKLESS[0]),
        (
            "here without",
            here.and_then(|here| here.baseline),
            OTHERS[3],
        ),
        ("here with", here.and_then(|here| here.with), TICKLESS[0]),
    ];
    let bars = figures.into_iter().filter_map(|(name, value, ink)| {
        let value = value?;
        Some(Bar {
            ink,
            name: name.to_owned(),
            value,
            text: units::digits(value),
        })
    });
    let bars: Vec<Bar> = bars.collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let ratio = table::ratio(headline.measured_ratio);
    let caption = html! {
        b { (headline.id) } ", " (headline.source.unit) ": " (ratio) " here, "
        (table::ratio(headline.source_ratio)) " in the source; holds: " (table::holds(headline))
    };
    Ok(Some(figure(plot::bars(&bars)?, &caption)))
}

fn sensitivity(rows: &[Sensitivity]) -> Markup {
    let id = rows.first().map_or("", |row| row.id);
    html! {
        h2 { "The ratio of " (id) " when a cost is another" }
        (table::sensitivity_grid(rows).html())
    }
}
