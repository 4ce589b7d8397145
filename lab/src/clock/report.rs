//! The run of `tickless clock` as a report.

use maud::{Markup, html};

use super::measure::{Drift, Skew};
use super::{Finished, Row};
use crate::failure::Failure;
use crate::page::{Number, figure};
use crate::plot::{self, Bar, OTHERS, TICKLESS};
use crate::report::{Graphic, Report};
use crate::table::Grid;
use crate::units;

/// The sources at the top of the page, each with its explanation.
const FIRST: [(&str, &str); 3] = [
    ("tickless", "for a read of this library's clock"),
    ("std", "of the standard library's"),
    (
        "tsc, fenced",
        "of the time-stamp counter alone, where reads keep their order",
    ),
];

/// Returns the report, from the cheapest source to the dearest.
pub(super) fn of(finished: &Finished<'_>) -> Result<Report, Failure> {
    let mut rows: Vec<&Row> = finished.rows.iter().collect();
    let cost = |row: &Row| row.alone.unwrap_or(f64::INFINITY);
    rows.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
    Ok(Report {
        heading: "Clocks",
        lead: "tickless clock: what a read of each source of time costs, and which of them can be trusted".to_owned(),
        machine: finished.machine.summary(),
        tables: vec![("What does a read cost here?".into(), figures(finished, &rows))],
        conclusions: conclusions(finished, &rows),
        subjects: rows
            .iter()
            .map(|row| (row.source.name.clone(), row.source.how.to_owned()))
            .collect(),
        graphic: Graphic {
            numbers: FIRST.iter().filter_map(|first| number(&rows, first)).collect(),
            plots: Some(costs(&rows)?),
            reading: Some(reading()),
            ..Graphic::default()
        },
        ..Report::default()
    })
}

fn figures(finished: &Finished<'_>, rows: &[&Row]) -> Grid {
    let time = |nanos: Option<f64>| nanos.map_or_else(|| "-".to_owned(), units::nanos);
    let cells = |row: &&Row| {
        vec![
            row.source.name.clone(),
            row.judge(&finished.rate).word.to_owned(),
            time(row.alone),
            time(row.contended),
            time(row.resolution),
            row.drift()
                .map_or_else(|| "-".to_owned(), |drift| of_drift(&drift)),
            row.skew().map_or_else(|| "-".to_owned(), of_skew),
        ]
    };
    Grid {
        head: vec![
            "source", "verdict", "alone", "all CPUs", "step", "drift", "skew",
        ],
        left: 2,
        rows: rows.iter().map(cells).collect(),
        note: "",
    }
}

/// Returns the conclusions: the reasons of verdicts, the clocks of the mainboard, and the counter that drives the
/// kernel's time and the library's.
fn conclusions(finished: &Finished<'_>, rows: &[&Row]) -> Vec<String> {
    let mut sentences = Vec::new();
    for row in rows {
        let judgement = row.judge(&finished.rate);
        if let Some(reason) = judgement.reason {
            let name = &row.source.name;
            sentences.push(format!("{name} is {}: {reason}.", judgement.word));
        }
    }
    for clock in &finished.wall_clocks {
        // Whole seconds: there is nothing to measure.
        sentences.push(format!(
            "{} shows {} s since 1970.",
            clock.name, clock.seconds
        ));
    }
    let kernel = &finished.kernel;
    let available = match kernel.available.join(", ") {
        none if none.is_empty() => "what it could use cannot be read".to_owned(),
        names => format!("it could use {names}"),
    };
    let current = kernel.current.as_deref();
    let current = current.unwrap_or("a source that cannot be read");
    sentences.push(format!(
        "The kernel keeps its time by {current}; {available}."
    ));
    sentences.push(match &finished.rate {
        Ok(hertz) => {
            let megahertz = units::digits(*hertz as f64 / 1e6);
            format!("This library reads the time-stamp counter, at {megahertz} MHz.")
        }
        Err(refusal) => {
            format!("This library does not read the time-stamp counter: {refusal}.")
        }
    });
    sentences
}

fn number(rows: &[&Row], (name, what): &(&str, &str)) -> Option<Number> {
    let row = rows.iter().find(|row| row.source.name == *name)?;
    Some(Number {
        figure: units::nanos(row.alone?),
        what: (*what).to_owned(),
    })
}

fn costs(rows: &[&Row]) -> Result<Markup, Failure> {
    let bar = |row: &&Row| {
        let value = row.alone?;
        Some(Bar {
            ink: if row.source.name == "tickless" {
                TICKLESS[0]
            } else {
                OTHERS[0]
            },
            name: row.source.name.clone(),
            value,
            text: units::nanos(value),
        })
    };
    let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
    let drawn = plot::bars(&bars)?;
    Ok(html! {
        h2 { "What does a read cost here?" }
        p.legend { span.tickless { "this library" } span.third { "others" } }
        div.panels { (figure(drawn, &html! { "A read by one thread, alone." })) }
    })
}

fn reading() -> Markup {
    html! {
        p { b { "Alone, all CPUs " } "are the cost of a read by one thread, and while all CPUs read." }
        p { b { "Step " } "is the smallest one between two readings." }
        p { b { "Drift " } "is by how many parts in a million a source is faster than the kernel's monotonic clock." }
        p { b { "Skew " } "is how far ahead the copy of a second CPU is, and how far off that may be." }
        p { b { "Bad " } "is what no delay explains: a rate that is off by more than 500 ppm, or a reading behind one \
            that another CPU handed over. " b { "Inconclusive " } "is all else that looks wrong." }
    }
}

/// Formats a drift: `+0.12 ± 0.80 ppm`.
pub(super) fn of_drift(drift: &Drift) -> String {
    format!(
        "{} ± {} ppm",
        signed(drift.ppm),
        units::digits(drift.within)
    )
}

fn of_skew(skew: &Skew) -> String {
    format!("{} ± {} ns", signed(skew.ahead), units::digits(skew.within))
}

/// Formats a number with its sign, unless the number would be shown as zero.
pub(super) fn signed(value: f64) -> String {
    let digits = units::digits(value);
    match digits.as_str() {
        "-0.00" | "0.00" => "0.00".to_owned(),
        _ if value > 0.0 => format!("+{digits}"),
        _ => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::signed;

    #[test]
    fn figures_have_a_sign() {
        assert_eq!(signed(0.001), "0.00");
        assert_eq!(signed(-0.001), "0.00");
        assert_eq!(signed(1.234), "+1.23");
        assert_eq!(signed(-12.34), "-12.3");
    }
}
