//! The report for people.

use std::fmt::Write as _;

use super::measure::{Drift, Skew};
use super::{Finished, Row};
use crate::table::{Align, table};
use crate::units;

/// Letters of the longest bar.
const BAR: f64 = 40.0;
/// An eighth of a letter, two eighths, and so on.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const WHOLE: char = '█';

/// The whole report.
pub(super) fn report(finished: &Finished<'_>) -> String {
    let mut text = bars(finished);
    text.push('\n');
    let head = [
        "source", "alone", "all CPUs", "step", "drift", "skew", "verdict",
    ];
    let aligns = [
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ];
    let rows = finished
        .rows
        .iter()
        .map(|row| cells(finished, row))
        .collect();
    text.push_str(&table(&head, &aligns, rows));
    text.push('\n');
    for clock in &finished.wall_clocks {
        // Whole seconds: there is nothing to measure.
        let _infallible = writeln!(text, "{}: {} s since 1970", clock.name, clock.seconds);
    }
    let _infallible = writeln!(text, "{}", finished.machine.summary());
    let kernel = &finished.kernel;
    let available = match kernel.available.join(", ") {
        none if none.is_empty() => "what it could use cannot be read".to_owned(),
        names => format!("it could use {names}"),
    };
    let current = kernel
        .current
        .as_deref()
        .unwrap_or("a source that cannot be read");
    let _infallible = writeln!(text, "The kernel keeps its time by {current}; {available}.");
    let _infallible = match &finished.rate {
        Ok(hertz) => writeln!(
            text,
            "This library reads the time-stamp counter, at {} MHz.",
            units::digits(*hertz as f64 / 1e6)
        ),
        Err(refusal) => writeln!(
            text,
            "This library does not read the time-stamp counter: {refusal}."
        ),
    };
    text
}

/// Draws the cost of a read for each source, from the cheapest to the dearest.
fn bars(finished: &Finished<'_>) -> String {
    let costs = finished
        .rows
        .iter()
        .filter_map(|row| Some((&row.source, row.alone?)));
    let mut costs: Vec<_> = costs.collect();
    costs.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut text = "What does a read cost here?\n".to_owned();
    let dearest = costs.last().map_or(1.0, |(_, cost)| *cost);
    let wide = costs
        .iter()
        .map(|(source, _)| source.name.chars().count())
        .max();
    let wide = wide.unwrap_or(0);
    for (source, cost) in costs {
        let name = &source.name;
        let bar = bar(cost / dearest);
        let figure = units::nanos(cost);
        let _infallible = writeln!(text, "{name:wide$}  {bar} {figure}");
    }
    text
}

/// A bar for a share of the longest one; never nothing.
fn bar(share: f64) -> String {
    let mut left = (share * BAR * 8.0).round().clamp(1.0, BAR * 8.0);
    let mut bar = String::new();
    while left >= 8.0 {
        bar.push(WHOLE);
        left -= 8.0;
    }
    let parts = EIGHTHS.iter().zip(1_u8..);
    bar.extend(
        parts
            .filter(|(_, eighths)| f64::from(*eighths) == left)
            .map(|(part, _)| part),
    );
    bar
}

fn cells(finished: &Finished<'_>, row: &Row) -> Vec<String> {
    let time = |nanos: Option<f64>| nanos.map_or_else(|| "-".to_owned(), units::nanos);
    vec![
        row.source.name.clone(),
        time(row.alone),
        time(row.contended),
        time(row.resolution),
        row.drift()
            .map_or_else(|| "-".to_owned(), |drift| of_drift(&drift)),
        row.skew().map_or_else(|| "-".to_owned(), of_skew),
        row.judge(&finished.rate).text(),
    ]
}

/// `+0.12 ± 0.80 ppm`.
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

/// Writes a number with its sign, but for one that would be shown as zero.
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
    use super::{bar, signed};

    #[test]
    fn bars_have_eighths_and_are_never_nothing() {
        assert_eq!(bar(0.0), "▏");
        assert_eq!(bar(0.05), "██");
        assert_eq!(bar(0.0625), "██▌");
        assert_eq!(bar(1.0).chars().count(), 40);
    }

    #[test]
    fn figures_have_a_sign() {
        assert_eq!(signed(0.001), "0.00");
        assert_eq!(signed(-0.001), "0.00");
        assert_eq!(signed(1.234), "+1.23");
        assert_eq!(signed(-12.34), "-12.3");
    }
}
