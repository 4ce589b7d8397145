//! The result as a page.

use maud::{Markup, html};

use super::gaps::Gaps;
use super::thread::Measured;
use super::{Finished, print};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::{figure, page};
use crate::plot::{self, Bar, OTHERS, TICKLESS};
use crate::{table, units};

/// The whole page.
pub(super) fn of(finished: &Finished<'_>) -> Result<String, Failure> {
    let body = html! {
        p.lead { "What takes the time of threads that only poll: a turn of the loop that is longer than the others was \
            interrupted." }
        h2 { "CPUs" }
        (table::html(&HEAD, 2, &rows(finished)))
        h2 { "Longest turns" }
        @if finished.plan.against_bare {
            p.legend { span.tickless { "worker" } span.third { "bare loop" } }
        }
        (longest(finished)?)
        h2 { "As printed" }
        pre tabindex="0" role="region" aria-label="Text, which scrolls sideways" { (print::summary(finished)) }
        h2 { "What ran" }
        p { (Machine::read().summary()) }
    };
    Ok(page("Noise", &body))
}

const HEAD: [&str; 7] = [
    "loop",
    "CPU",
    "turn",
    "longest turn",
    "longer turns",
    "their share of the time",
    "timers fired",
];

fn loops(thread: &Measured) -> impl Iterator<Item = (&'static str, &Gaps)> {
    let bare = thread.bare.as_ref().map(|gaps| ("bare", gaps));
    std::iter::once(("worker", &thread.gaps)).chain(bare)
}

fn rows(finished: &Finished<'_>) -> Vec<Vec<String>> {
    let row = |thread: &Measured, name: &str, gaps: &Gaps| {
        let longer: u64 = gaps.buckets().skip(1).map(|(_, count)| count).sum();
        vec![
            name.to_owned(),
            thread.cpu.to_string(),
            units::nanos(gaps.average_nanos()),
            units::nanos(gaps.rate().nanos(gaps.max()) as f64),
            units::count(longer),
            format!("{:.4} %", gaps.stolen_share() * 100.0),
            match name {
                "worker" => units::count(thread.work.fired),
                _ => "-".to_owned(),
            },
        ]
    };
    let all = finished.threads.iter();
    let all = all.flat_map(|thread| loops(thread).map(move |(name, gaps)| row(thread, name, gaps)));
    all.collect()
}

fn longest(finished: &Finished<'_>) -> Result<Markup, Failure> {
    let bar = |thread: &Measured, place: usize, gaps: &Gaps| {
        let nanos = gaps.rate().nanos(gaps.max()) as f64;
        Bar {
            ink: [TICKLESS[0], OTHERS[0]][place.min(1)],
            name: format!("CPU {}", thread.cpu),
            value: nanos,
            text: units::nanos(nanos),
        }
    };
    let all = finished.threads.iter();
    let all = all.flat_map(|thread| {
        let loops = loops(thread).enumerate();
        loops.map(move |(place, (_, gaps))| bar(thread, place, gaps))
    });
    let bars: Vec<Bar> = all.collect();
    let drawn = plot::bars(&bars)?;
    Ok(
        html! { div.panels { (figure(drawn, &html! { "The longest turn of the loop on each CPU." })) } },
    )
}
