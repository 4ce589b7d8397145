//! The part of the report that only an HTML page has: plots and explanations.

use maud::{Markup, html};

use super::Finished;
use super::features::Features;
use super::result::Row;
use crate::failure::Failure;
use crate::page::{Number, figure};
use crate::plot::{self, Bar, OTHERS, TICKLESS, TOKIO};
use crate::report::Graphic;
use crate::spread::Spread;
use crate::units;

/// Returns the plots and explanations.
pub(super) fn of(finished: &Finished<'_>) -> Result<Graphic, Failure> {
    Ok(Graphic {
        numbers: numbers(finished),
        plots: Some(panels(finished)?),
        reading: Some(reading()),
        ..Graphic::default()
    })
}

/// Returns three figures with everything on, each next to the figure with everything off.
fn numbers(finished: &Finished<'_>) -> Vec<Number> {
    let on = Row::find(&finished.rows, Features::all(true, true));
    let off = Row::find(&finished.rows, Features::all(false, true));
    let number = |what: &str, of: Of, show: Show| {
        let off = off.and_then(of);
        let beside = off.map(|off| format!("; everything off {}", show(off.median)));
        Some(Number {
            figure: show(on.and_then(of)?.median),
            what: format!("{what}{}", beside.unwrap_or_default()),
        })
    };
    let numbers = [
        number("run time with everything on", Row::seconds, units::seconds),
        number(
            "writes of the device, a second",
            Row::device_writes_per_s,
            units::digits,
        ),
        number(
            "of the interrupts found nothing",
            Row::spurious,
            units::percent,
        ),
    ];
    numbers.into_iter().flatten().collect()
}

type Of = fn(&Row) -> Option<Spread>;
type Show = fn(f64) -> String;

fn panels(finished: &Finished<'_>) -> Result<Markup, Failure> {
    let kinds: [(&str, Of, Show); 4] = [
        ("Run time", Row::seconds, units::seconds),
        (
            "Writes of the device, a second",
            Row::device_writes_per_s,
            units::digits,
        ),
        (
            "Interrupts that found nothing",
            Row::spurious,
            units::percent,
        ),
        (
            "Updates that kept their place",
            Row::in_place,
            units::percent,
        ),
    ];
    let mut drawn = Vec::new();
    for (caption, of, show) in kinds {
        let mut bars: Vec<Bar> = finished
            .rows
            .iter()
            .filter_map(|row| {
                let median = of(row)?.median;
                Some(Bar {
                    ink: TICKLESS[usize::from(!row.features.hrtick)],
                    name: row.features.name().replace("without", "-"),
                    value: median,
                    text: show(median),
                })
            })
            .collect();
        if caption == "Run time" {
            bars.extend(finished.others.iter().filter_map(|other| {
                let median = other.spread()?.median;
                Some(Bar {
                    ink: if other.name.starts_with("tokio") {
                        TOKIO
                    } else {
                        OTHERS[0]
                    },
                    name: other.name.to_owned(),
                    value: median,
                    text: show(median),
                })
            }));
        }
        if !bars.is_empty() {
            drawn.push(figure(plot::bars(&bars)?, &html! { (caption) }));
        }
    }
    Ok(html! {
        h2 { "Configuration by configuration" }
        p.legend { span.tickless { "hrtick on" } span.tickless-2 { "hrtick off" } span.tokio { "tokio" }
            span.third { "others" } }
        div.panels { @for panel in drawn { (panel) } }
    })
}

fn reading() -> Markup {
    html! {
        p { b { "The load " } "is hackbench's: in each group every sender sends to every receiver, as fast as it can, \
            with a checkpoint behind each message. Nothing waits for a time: what timers there are end slices. " }
        p { b { "A write " } "is a system call that sets the POSIX timer of a worker. Which worker it was does not \
            matter here: all of the process are counted. " }
        p { b { "Spurious " } "interrupts find no timer due. They are the price of leaving the device alone when its \
            timer moves later. " }
        p { b { "In place " } "means that a timer which was queued already was compared with its neighbours and kept \
            between them. " }
    }
}
