//! The result of `tickless noise` as an HTML page.

use maud::{Markup, html};

use super::gaps::Gaps;
use super::thread::Measured;
use super::{Finished, print};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::{Number, figure};
use crate::plot::{self, Bar, OTHERS, TICKLESS};
use crate::report::{Graphic, Report};
use crate::table::Grid;
use crate::units;

/// Returns the whole page.
pub(super) fn of(finished: &Finished<'_>) -> Result<String, Failure> {
    let printed = html! {
        pre.printed tabindex="0" role="region" aria-label="Text, which scrolls sideways" {
            (print::summary(finished))
        }
    };
    let report = Report {
        heading: "Noise",
        lead: "What takes the time of threads that only poll: a turn of the loop that is longer than the others was \
               interrupted"
            .to_owned(),
        machine: Machine::read().summary(),
        tables: vec![("CPUs".into(), figures(finished))],
        graphic: Graphic {
            numbers: numbers(finished),
            plots: Some(longest(finished)?),
            figures: Some(printed),
            ..Graphic::default()
        },
        ..Report::default()
    };
    Ok(report.page())
}

/// Returns the worker's figures on the worst CPU, each next to the bare loop's figure on its worst CPU.
fn numbers(finished: &Finished<'_>) -> Vec<Number> {
    type Of = fn(&Gaps) -> f64;
    type Show = fn(f64) -> String;
    let numbers: [(&str, Of, Show); 3] = [
        (
            "longest turn",
            |gaps| gaps.rate().nanos(gaps.max()) as f64,
            units::nanos,
        ),
        ("of the time in longer turns", Gaps::stolen_share, |share| {
            format!("{:.4} %", share * 100.0)
        }),
        ("for a turn on average", Gaps::average_nanos, units::nanos),
    ];
    let worst = |name: &str, of: Of| {
        let all = finished.threads.iter().flat_map(loops);
        let values = all.filter(|(loop_name, _)| *loop_name == name);
        values.map(|(_, gaps)| of(gaps)).reduce(f64::max)
    };
    let number = |(what, of, show): (&str, Of, Show)| {
        let bare = worst("bare", of).map(|bare| format!("; bare loop {}", show(bare)));
        Some(Number {
            figure: show(worst("worker", of)?),
            what: format!("{what}{}", bare.unwrap_or_default()),
        })
    };
    numbers.into_iter().filter_map(number).collect()
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

fn figures(finished: &Finished<'_>) -> Grid {
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
    Grid {
        head: HEAD.to_vec(),
        left: 2,
        rows: all.collect(),
        note: "",
    }
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
    Ok(html! {
        h2 { "Longest turns" }
        @if finished.plan.against_bare {
            p.legend { span.tickless { "worker" } span.third { "bare loop" } }
        }
        div.panels { (figure(drawn, &html! { "The longest turn of the loop on each CPU." })) }
    })
}
