//! The claims as text for the terminal.

use std::fmt::Write;

use tickless_sim::headline::{ClaimVerdict, Figures, Headline, Tally};

use super::why;
use crate::table::Grid;
use crate::units;

/// Formats a figure, or a dash if it is unknown.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), units::digits)
}

/// Formats the figures without and with the mechanism.
fn both(figures: &Figures) -> String {
    format!("{} -> {}", figure(figures.baseline), figure(figures.with))
}

/// Converts the gain of a claim to the ratio that tables and JSON show: below 1 is better.
pub(super) fn below_one(gain: Option<f64>) -> Option<f64> {
    gain.map(|gain| 1.0 / gain)
        .filter(|ratio| ratio.is_finite())
}

/// Formats the ratio of a claim. `gain` is the figure without the mechanism divided by the figure with it, if known.
fn ratio(gain: Option<f64>) -> String {
    below_one(gain).map_or_else(|| "-".to_owned(), units::ratio)
}

/// Returns a table with a line for each claim.
fn grid(headlines: &[Headline]) -> Grid {
    let rows = headlines.iter().map(|headline| {
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
fn holds(headline: &Headline) -> &'static str {
    match headline.verdict {
        ClaimVerdict::Holds => "yes",
        ClaimVerdict::Fails => "no",
        ClaimVerdict::SaysNothing => "says nothing",
        ClaimVerdict::NotYet => "not yet",
    }
}

/// Counts the claims by result in a sentence.
fn count(headlines: &[Headline]) -> String {
    let tally = Tally::of(headlines);
    format!(
        "Of {} on simulated machines {} hold, {} do not, {} would hold without the mechanism too and so say nothing, \
         {} cannot be tried yet.",
        units::counted(headlines.len() as u64, "claim"),
        tally.hold,
        tally.fail,
        tally.say_nothing,
        tally.not_yet,
    )
}

/// Formats the table, and explains each line below it.
pub(super) fn text(seed: u64, headlines: &[Headline]) -> String {
    let mut out = format!(
        "tickless {}, seed {seed}: claims of the sources, without -> with\n\n",
        env!("CARGO_PKG_VERSION"),
    );
    out.push_str(&grid(headlines).text());
    out.push('\n');
    for line in wrapped(&count(headlines)) {
        let _infallible = writeln!(out, "{line}");
    }
    for headline in headlines {
        let _infallible = writeln!(out, "\n{}", headline.id);
        for line in wrapped(&why(headline)) {
            let _infallible = writeln!(out, "  {line}");
        }
    }
    out
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
