//! The claims as text for the terminal.

use std::fmt::Write;

use tickless_sim::headline::{ClaimVerdict, Figures, Headline, Sensitivity, Tally};

use super::{Outcome, why};
use crate::table::Grid;
use crate::units;

/// Formats a figure, or a dash if it is unknown.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), units::digits)
}

/// Formats the figures without and with the mechanism.
pub(super) fn both(figures: &Figures) -> String {
    format!("{} -> {}", figure(figures.baseline), figure(figures.with))
}

/// Converts the gain of a claim to the ratio that tables and JSON show: below 1 is better.
pub(super) fn below_one(gain: Option<f64>) -> Option<f64> {
    gain.map(|gain| 1.0 / gain)
        .filter(|ratio| ratio.is_finite())
}

/// Formats the ratio of a claim. `gain` is the figure without the mechanism divided by the figure with it, if known.
pub(super) fn ratio(gain: Option<f64>) -> String {
    below_one(gain).map_or_else(|| "-".to_owned(), units::ratio)
}

/// Returns a table with a line for each claim.
pub(super) fn grid(outcome: &Outcome) -> Grid {
    let rows = outcome.headlines.iter().map(|headline| {
        let measured = headline.measured.as_ref();
        let row = [
            headline.id.to_owned(),
            holds(headline).to_owned(),
            headline.source.unit.to_owned(),
            both(&headline.source),
            ratio(headline.source_ratio),
            measured.map_or_else(|| "-".to_owned(), both),
            ratio(headline.measured_ratio),
        ];
        row.to_vec()
    });
    Grid {
        head: vec!["claim", "holds", "unit", "source", "ratio", "here", "ratio"],
        left: 3,
        rows: rows.collect(),
        note: "A ratio is with / without (without / with where more is better): below 1 is better.",
    }
}

/// Returns a word or two on whether a claim holds.
pub(super) fn holds(headline: &Headline) -> &'static str {
    match headline.verdict {
        ClaimVerdict::Holds => "yes",
        ClaimVerdict::Fails => "no",
        ClaimVerdict::SaysNothing => "says nothing",
        ClaimVerdict::NotYet => "not yet",
    }
}

/// Counts the claims by result in a sentence: the same in the table and on the page.
pub(super) fn count(outcome: &Outcome) -> String {
    let tally = Tally::of(&outcome.headlines);
    format!(
        "Of {} on simulated machines {} hold, {} do not, {} would hold without the mechanism too and so say nothing, \
         {} cannot be tried yet.",
        units::counted(outcome.headlines.len() as u64, "claim"),
        tally.hold,
        tally.fail,
        tally.say_nothing,
        tally.not_yet,
    )
}

/// Formats the table, and explains each line below it.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut out = format!(
        "tickless {}, seed {}: claims of the sources, without -> with\n\n",
        env!("CARGO_PKG_VERSION"),
        outcome.seed
    );
    out.push_str(&grid(outcome).text());
    out.push('\n');
    for line in wrapped(&count(outcome)) {
        let _infallible = writeln!(out, "{line}");
    }
    for headline in &outcome.headlines {
        let _infallible = writeln!(out, "\n{}", headline.id);
        for line in wrapped(&why(headline)) {
            let _infallible = writeln!(out, "  {line}");
        }
    }
    for rows in outcome.sensitivity.iter().filter(|rows| !rows.is_empty()) {
        out.push_str(&sensitivity(rows));
    }
    out
}

/// Returns a table of the costs that change the ratio of a claim.
pub(super) fn sensitivity_grid(rows: &[Sensitivity]) -> Grid {
    let ratio = |gain: Option<f64>| {
        below_one(gain).map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
    };
    let rows = rows.iter().filter_map(|row| {
        let [half, as_is, twice] = [row.half, row.as_is, row.twice].map(ratio);
        let counts = half != as_is || twice != as_is;
        counts.then(|| vec![row.cost.to_owned(), half, as_is, twice])
    });
    Grid {
        head: vec!["cost", "half", "as is", "twice"],
        left: 1,
        rows: rows.collect(),
        note: "All other costs change less than a hundredth.",
    }
}

fn sensitivity(rows: &[Sensitivity]) -> String {
    let id = rows.first().map_or("", |row| row.id);
    let grid = sensitivity_grid(rows).text();
    format!("\n{id}: the ratio when a cost is another\n{grid}")
}

/// The columns of running text.
const COLUMNS: usize = 94;

/// Wraps `text` to lines of at most [`COLUMNS`] letters, broken between words.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn text_is_broken_between_words() {
        let lines = wrapped(&"fifteen letters ".repeat(20));
        assert!(lines.len() > 2);
        let (last, whole) = lines.split_last().expect("there are some");
        assert!(whole.iter().all(|line| line.len() <= 94 && line.len() > 80));
        assert!(last.len() <= 94);
        assert_eq!(lines.join(" "), "fifteen letters ".repeat(20).trim());
    }
}
