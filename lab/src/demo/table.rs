//! The table: what stands in it, once for the terminal and once for the page, and the result in a sentence.

use std::fmt::Write;

use super::arguments::Settings;
use super::result::Outcome;
use super::subject::Arm;
use super::totals::{Late, Total, median};
use crate::units;

/// A part of the table, with a heading.
pub(crate) struct Group {
    pub(crate) heading: String,
    pub(crate) rows: Vec<Row>,
}

/// A figure of all arms.
pub(crate) struct Row {
    pub(crate) label: &'static str,
    pub(crate) cells: [Cell; 3],
    /// How the figures of the others compare with tokio's, by the rounds.
    pub(crate) against: [Against; 3],
}

/// How a figure compares with tokio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// Better in every round than tokio's in any.
    Better,
    /// Worse in every round than tokio's in any.
    Worse,
    /// They differ by no more than their rounds do, or cannot be compared.
    Open,
}

pub(crate) struct Cell {
    pub(crate) text: String,
    /// How many times better than tokio's it is; empty where nothing is better.
    pub(crate) ratio: String,
}

/// Which way is better.
#[derive(Clone, Copy)]
enum Better {
    Less,
    More,
}

/// A figure of all arms, and between which it was in their rounds.
struct Values {
    figures: [Option<f64>; 3],
    spreads: [Option<(f64, f64)>; 3],
}

fn row(
    label: &'static str,
    values: Values,
    better: Option<Better>,
    show: fn(f64) -> String,
) -> Row {
    let tokio = values.figures[Arm::Tokio.index()];
    let cells = Arm::ALL.map(|arm| {
        let value = values.figures[arm.index()];
        let ratio = match (tokio, value, better) {
            (Some(tokio), Some(value), Some(better)) if arm != Arm::Tokio => {
                ratio(tokio, value, better)
            }
            _ => None,
        };
        Cell {
            text: value.map_or_else(|| "-".to_owned(), show),
            ratio: ratio.map_or_else(String::new, |ratio| format!("{}×", units::digits(ratio))),
        }
    });
    let spread = |arm: Arm| values.spreads[arm.index()];
    let against = Arm::ALL.map(|arm| match (spread(Arm::Tokio), spread(arm), better) {
        (Some(tokio), Some(spread), Some(better)) if arm != Arm::Tokio => {
            against(tokio, spread, better)
        }
        _ => Against::Open,
    });
    Row {
        label,
        cells,
        against,
    }
}

/// The one rule by which a figure counts as better or worse: the rounds of one do not reach those of the other.
fn against(tokio: (f64, f64), other: (f64, f64), better: Better) -> Against {
    let (is_less, is_more) = (other.1 < tokio.0, other.0 > tokio.1);
    match (is_less, is_more, better) {
        (true, _, Better::Less) | (_, true, Better::More) => Against::Better,
        (true, _, Better::More) | (_, true, Better::Less) => Against::Worse,
        (false, false, _) => Against::Open,
    }
}

fn ratio(tokio: f64, value: f64, better: Better) -> Option<f64> {
    let ratio = match better {
        Better::Less => tokio / value,
        Better::More => value / tokio,
    };
    ratio.is_finite().then_some(ratio)
}

fn each(totals: &[Total; 3], of: impl Fn(&Total) -> Option<f64>) -> Values {
    Values {
        figures: totals.each_ref().map(&of),
        spreads: totals.each_ref().map(|total| total.spread(&of)),
    }
}

/// The rows of a distribution of lateness.
fn lateness(totals: &[Total; 3], of: impl Fn(&Total) -> &Late) -> Vec<Row> {
    let quantiles = [
        ("late, p50", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99.9", 0.999),
    ];
    let mut rows: Vec<Row> = quantiles
        .into_iter()
        .map(|(label, share)| {
            let values = each(totals, |total| {
                of(total).quantile(share).map(|nanos| nanos as f64)
            });
            row(label, values, Some(Better::Less), units::nanos)
        })
        .collect();
    let max = each(totals, |total| of(total).max().map(|nanos| nanos as f64));
    rows.push(row("max", max, Some(Better::Less), units::nanos));
    rows
}

/// Counts and rates: no fractions of them.
pub(crate) fn whole(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.0}")
    } else {
        units::digits(value)
    }
}

pub(crate) fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

/// The whole table.
pub(crate) fn groups(settings: &Settings, totals: &[Total; 3]) -> Vec<Group> {
    let count = |of: fn(&Total) -> u64| each(totals, |total| Some(of(total) as f64));
    let mut paced = vec![row(
        "ticks",
        count(|total| total.paced.histogram.len()),
        None,
        whole,
    )];
    paced.extend(lateness(totals, |total| &total.paced));
    let mut idle = vec![
        row(
            "silent clients",
            count(|total| total.silent.expected),
            None,
            whole,
        ),
        row("closed", count(|total| total.silent.closed), None, whole),
    ];
    idle.extend(lateness(totals, |total| &total.idle));
    let mut header = vec![
        row(
            "slow clients",
            count(|total| total.slow.expected),
            None,
            whole,
        ),
        row("closed", count(|total| total.slow.closed), None, whole),
    ];
    header.extend(lateness(totals, |total| &total.header));
    let latency = |share| {
        each(totals, move |total| {
            let nanos = total.latency.quantile(share)?;
            Some(nanos as f64)
        })
    };
    let requests = vec![
        row(
            "a second",
            each(totals, |total| total.rate(total.window.requests)),
            Some(Better::More),
            whole,
        ),
        row("took, p50", latency(0.5), Some(Better::Less), units::nanos),
        row("p99", latency(0.99), Some(Better::Less), units::nanos),
    ];
    vec![
        Group {
            heading: format!("paced ticks, every {}", units::time(settings.pace)),
            rows: paced,
        },
        Group {
            heading: format!("idle timeouts, {}", units::time(settings.idle)),
            rows: idle,
        },
        Group {
            heading: format!("header timeouts, {}", units::time(settings.header)),
            rows: header,
        },
        Group {
            heading: "requests".to_owned(),
            rows: requests,
        },
        Group {
            heading: "cost".to_owned(),
            rows: cost(totals),
        },
    ]
}

/// The rows about what it costs.
fn cost(totals: &[Total; 3]) -> Vec<Row> {
    let less = Some(Better::Less);
    let mut rows = vec![
        row(
            "push a deadline out",
            each(totals, |total| median(&total.push)),
            less,
            units::nanos,
        ),
        row(
            "arm a timeout, drop it",
            each(totals, |total| median(&total.arm)),
            less,
            units::nanos,
        ),
        row(
            "server, of one CPU",
            each(totals, Total::load),
            less,
            percent,
        ),
        row(
            "wake-ups a second",
            each(totals, |total| total.rate(total.window.usage.wakeups)),
            less,
            whole,
        ),
    ];
    let syscalls = each(totals, |total| total.syscalls);
    if syscalls.figures.iter().any(Option::is_some) {
        rows.push(row("system calls a second", syscalls, less, whole));
    }
    rows
}

/// Columns of the label, and of each figure with its ratio.
const LABEL: usize = 24;
const FIGURE: usize = 16;
const RATIO: usize = 8;

/// The table as text.
pub(crate) fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    let [tokio, tickless, worker] = Arm::ALL.map(Arm::name);
    // Writing to a string cannot fail.
    let _infallible = write!(out, "{:LABEL$}{tokio:>FIGURE$}{tickless:>FIGURE$}", "");
    let _infallible = writeln!(out, "{:RATIO$}{worker:>FIGURE$}", "");
    for group in groups(&outcome.settings, &outcome.totals) {
        let _infallible = writeln!(out, "{}", group.heading);
        for row in group.rows {
            let mut line = format!("  {:width$}", row.label, width = LABEL - 2);
            for (arm, cell) in Arm::ALL.iter().zip(&row.cells) {
                let _infallible = write!(line, "{:>FIGURE$}", cell.text);
                if *arm != Arm::Tokio {
                    let _infallible = write!(line, "{:>RATIO$}", cell.ratio);
                }
            }
            let _infallible = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

/// The checks as text.
pub(crate) fn checks(outcome: &Outcome) -> String {
    let mut out = String::new();
    for check in &outcome.checks {
        let mark = if check.holds { "ok    " } else { "FAILED" };
        let _infallible = writeln!(out, "{mark} {} ({})", check.name, check.detail);
    }
    out
}

/// The result in plain words: the two figures that the library is about, and by one rule how many of all are better,
/// and which are worse.
pub(crate) fn sentence(settings: &Settings, totals: &[Total; 3]) -> String {
    let [tokio, tickless, worker] = totals;
    let nanos = |late: &Late| late.quantile(0.5).map(|nanos| nanos as f64);
    let (Some(before), Some(after), Some(best)) = (
        nanos(&tokio.paced),
        nanos(&tickless.paced),
        nanos(&worker.paced),
    ) else {
        return "The run ended before every kind of timer had its turn: nothing to compare."
            .to_owned();
    };
    let mut text = format!(
        "Paced ticks came {} their time with tickless::time than with tokio::time ({} instead of {} late at the \
         median), and {} on a tickless::Worker ({})",
        nearness(before / after),
        units::nanos(after),
        units::nanos(before),
        nearness(before / best)
            .trim_end_matches(" to")
            .trim_end_matches(" from"),
        units::nanos(best),
    );
    if let (Some(before), Some(after)) = (nanos(&tokio.idle), nanos(&tickless.idle)) {
        let _infallible = write!(
            text,
            "; idle timeouts {} theirs ({} instead of {})",
            nearness(before / after),
            units::nanos(after),
            units::nanos(before)
        );
    }
    text.push('.');
    let groups = groups(settings, totals);
    for (arm, name) in [(Arm::Tickless, "tickless::time"), (Arm::Worker, "a Worker")] {
        text.push(' ');
        text.push_str(&verdicts(&groups, arm, name));
    }
    text
}

/// How many figures of an arm are better than tokio's in every round, and each that is worse.
fn verdicts(groups: &[Group], arm: Arm, name: &str) -> String {
    let rows = || {
        let rows = groups.iter().flat_map(|group| {
            let rows = group.rows.iter();
            rows.map(move |row| (group, row, row.against[arm.index()]))
        });
        rows.filter(|(_, row, _)| !row.cells[arm.index()].ratio.is_empty())
    };
    let better = rows().filter(|(_, _, against)| *against == Against::Better);
    let worse: Vec<String> = rows()
        .filter(|(_, _, against)| *against == Against::Worse)
        .map(|(group, row, _)| {
            let [figure, tokio] = [arm, Arm::Tokio].map(|arm| &row.cells[arm.index()].text);
            let heading = group.heading.split(',').next().unwrap_or_default();
            format!("{heading}: {} ({figure} instead of {tokio})", row.label)
        })
        .collect();
    let counted = format!(
        "With {name} {} of {} figures were better in every round than tokio's in any",
        better.count(),
        rows().count()
    );
    if worse.is_empty() {
        return format!("{counted}, and none worse.");
    }
    format!("{counted}; worse were {}.", worse.join(", "))
}

/// "30 times closer to", or "1.2 times further from".
fn nearness(ratio: f64) -> String {
    if ratio >= 1.0 {
        format!("{} times closer to", times(ratio))
    } else {
        format!("{} times further from", times(1.0 / ratio))
    }
}

fn times(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Against, Better, Values, groups, nearness, row, sentence, whole};
    use crate::demo::arguments::Settings;
    use crate::demo::totals::Total;
    use crate::units;
    use std::time::Duration;

    /// Figures that were the same in each round.
    fn steady(figures: [Option<f64>; 3]) -> Values {
        Values {
            figures,
            spreads: figures.map(|figure| figure.map(|figure| (figure, figure))),
        }
    }

    fn totals(lateness: [u64; 3]) -> [Total; 3] {
        lateness.map(|micros| {
            let mut total = Total::new();
            for _ in 0..2 {
                let late = Duration::from_micros(micros);
                crate::histogram::record(&mut total.paced.histogram, late);
            }
            total
        })
    }

    #[test]
    fn more_than_once_is_better_whichever_way_better_is() {
        let figures = [Some(1_000.0), Some(100.0), Some(2_000.0)];
        let ratios = |better| {
            let row = row("late", steady(figures), better, units::nanos);
            row.cells.map(|cell| cell.ratio)
        };
        assert_eq!(ratios(Some(Better::Less)), ["", "10.0×", "0.50×"]);
        assert_eq!(ratios(Some(Better::More)), ["", "0.10×", "2.00×"]);
        assert_eq!(ratios(None), ["", "", ""]);
    }

    #[test]
    fn what_is_unknown_is_a_dash_and_compares_with_nothing() {
        let row = row(
            "rate",
            steady([None, Some(5.0), Some(0.0)]),
            Some(Better::Less),
            whole,
        );
        let texts = row.cells.map(|cell| (cell.text, cell.ratio));
        let of = |text: &str| (text.to_owned(), String::new());
        assert_eq!(texts, [of("-"), of("5"), of("0")]);
    }

    #[test]
    fn every_row_has_its_figure_of_every_arm() {
        let groups = groups(&Settings::sample(), &totals([1_000, 50, 20]));
        let headings: Vec<_> = groups.iter().map(|group| group.heading.as_str()).collect();
        assert_eq!(headings[0], "paced ticks, every 200 µs");
        assert_eq!(headings.len(), 5);
        let median = &groups[0].rows[1];
        assert_eq!(median.label, "late, p50");
        let cells: Vec<_> = median
            .cells
            .iter()
            .map(|cell| cell.ratio.as_str())
            .collect();
        assert_eq!(
            (
                cells[0],
                cells[1].starts_with("20"),
                cells[2].starts_with("50")
            ),
            ("", true, true)
        );
    }

    #[test]
    fn the_sentence_says_which_way_it_went() {
        let text = sentence(&Settings::sample(), &totals([1_000, 50, 2_000]));
        assert!(
            text.contains("20 times closer to their time with tickless::time"),
            "{text}"
        );
        assert!(
            text.contains("2.0 times further on a tickless::Worker"),
            "{text}"
        );
        let [tokio, ..] = totals([1, 1, 1]);
        let text = sentence(&Settings::sample(), &[tokio, Total::new(), Total::new()]);
        assert!(text.contains("nothing to compare"), "{text}");
        assert_eq!(nearness(1.0), "1.0 times closer to");
    }

    #[test]
    fn what_the_rounds_differ_by_decides_what_is_better_or_worse() {
        let against = |tokio, other, better| {
            let values = Values {
                figures: [Some(10.0); 3],
                spreads: [Some(tokio), Some(other), None],
            };
            row("late", values, better, units::nanos).against
        };
        let less = Some(Better::Less);
        let [_, overlapping, unknown] = against((10.0, 14.0), (13.0, 20.0), less);
        assert_eq!((overlapping, unknown), (Against::Open, Against::Open));
        assert_eq!(against((10.0, 14.0), (15.0, 20.0), less)[1], Against::Worse);
        assert_eq!(against((10.0, 14.0), (2.0, 9.0), less)[1], Against::Better);
        let more = Some(Better::More);
        assert_eq!(against((10.0, 14.0), (2.0, 9.0), more)[1], Against::Worse);
        assert_eq!(against((10.0, 14.0), (2.0, 9.0), None)[1], Against::Open);
    }

    /// What is worse by more than the rounds differ is named, as well as what is better.
    #[test]
    fn the_sentence_names_every_figure_that_is_worse() {
        let mut totals = totals([1_000, 50, 20]);
        for (total, push) in totals.iter_mut().zip([11.0, 25.0, 10.0]) {
            total.push = vec![push];
        }
        let text = sentence(&Settings::sample(), &totals);
        for part in [
            "20 times closer to their time with tickless::time",
            "worse were cost: push a deadline out (25.0 ns instead of 11.0 ns).",
            "With a Worker",
            "than tokio's in any, and none worse.",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }
}
