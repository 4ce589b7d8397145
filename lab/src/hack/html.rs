//! The report as a page.

use maud::{Markup, html};

use super::result::{Other, Row};
use super::{Finished, marks, print};
use crate::failure::Failure;
use crate::page::{figure, page};
use crate::plot::{self, Bar, OTHERS, TICKLESS, TOKIO};
use crate::spread::Spread;
use crate::{table, units};

/// The whole page.
pub(super) fn of(finished: &Finished<'_>) -> Result<String, Failure> {
    let conclusions = print::conclusions(finished);
    let body = html! {
        p.lead { (print::title(finished)) "." }
        ul { @for conclusion in &conclusions { li { (conclusion) } } }
        @for complaint in finished.others.iter().filter_map(Other::complaint) { p.note { (complaint) "." } }
        h2 { "Figures" }
        (table::html(&print::HEAD, 2, &print::rows(finished)))
        p.note { (print::NOTE) }
        ul { @for mark in marks::of(&finished.rows, finished.plan.device) { li { (mark.line()) } } }
        (panels(finished)?)
        h2 { "How to read it" }
        (reading())
        h2 { "What ran" }
        @if !finished.others.is_empty() { table.facts { tbody { @for other in &finished.others {
            tr { th scope="row" { (other.name) } td { (other.what) } }
        } } } }
        p { (finished.machine.summary()) }
        @if cfg!(debug_assertions) {
            p { "Built without optimisation: the figures are not the library's." }
        }
    };
    Ok(page("Messages, slices and writes of the device", &body))
}

fn panels(finished: &Finished<'_>) -> Result<Markup, Failure> {
    type Of = fn(&Row) -> Option<Spread>;
    type Show = fn(f64) -> String;
    let kinds: [(&str, Of, Show); 4] = [
        ("Run time", Row::seconds, |seconds| {
            units::nanos(seconds * 1e9)
        }),
        (
            "Writes of the device, a second",
            Row::device_writes_per_s,
            units::digits,
        ),
        ("Interrupts that found nothing", Row::spurious, percent),
        ("Updates that kept their place", Row::in_place, percent),
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

fn percent(share: f64) -> String {
    format!("{} %", units::digits(share * 100.0))
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
