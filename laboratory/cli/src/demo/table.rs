//! The figures of the demo, their tables, and the result in a sentence.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use super::arguments::Settings;
use super::result::{Check, Outcome};
use super::subject::Arm;
use super::totals::{Late, Total, Totals, median};
use crate::spread::{self, ROUNDS_MIN, Spread};
use crate::table::Grid;
use crate::units;

/// A part of the table, with a heading.
pub(crate) struct Group {
    pub(crate) heading: String,
    pub(crate) rows: Vec<Row>,
}

/// A figure of all arms.
pub(crate) struct Row {
    pub(crate) label: &'static str,
    pub(crate) cells: [Cell; Arm::COUNT],
    /// The comparisons of the other figures with tokio's, by rounds.
    pub(crate) against: [Against; Arm::COUNT],
}

/// The comparison of a figure with tokio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// The figure is better in every round than tokio's in any.
    Better,
    /// The figure is worse in every round than tokio's in any.
    Worse,
    /// The rounds overlap: the figures differ by no more than the rounds of each.
    Same,
    /// The figure is missing in too many rounds, or neither direction of it is better.
    Open,
}

pub(crate) struct Cell {
    pub(crate) text: String,
    /// Half of the range of the figure's rounds, as a share of their median; empty if too few rounds have the figure.
    pub(crate) spread: String,
    /// Ratio to tokio's figure, below 1 if better; empty where neither direction is better.
    pub(crate) ratio: String,
}

/// The direction that is better.
#[derive(Clone, Copy)]
enum Better {
    Less,
    More,
}

/// A figure of all arms, and its values in their rounds.
struct Values {
    figures: [Option<f64>; Arm::COUNT],
    spreads: [Option<Spread>; Arm::COUNT],
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
        let spread = better.and(values.spreads[arm.index()]);
        Cell {
            text: value.map_or_else(|| "-".to_owned(), show),
            spread: value
                .and(spread)
                .map_or_else(String::new, |spread| half_apart(&spread)),
            ratio: ratio.map_or_else(String::new, units::ratio),
        }
    });
    let spread = |arm: Arm| values.spreads[arm.index()];
    let against = Arm::ALL.map(|arm| match (spread(Arm::Tokio), spread(arm), better) {
        (Some(tokio), Some(spread), Some(better)) if arm != Arm::Tokio => {
            against(&tokio, &spread, better)
        }
        _ => Against::Open,
    });
    Row {
        label,
        cells,
        against,
    }
}

/// Formats half of the range of a figure's rounds, as a share of their median.
fn half_apart(spread: &Spread) -> String {
    match spread.half_apart() {
        None => String::new(),
        Some(share) if share < 9.995 => format!("±{:.0}%", 100.0 * share),
        Some(_) => "±>9×".to_owned(),
    }
}

/// Compares a figure with tokio's by the one rule for better and worse: enough rounds have the figure, and the rounds
/// of one side do not overlap with those of the other.
fn against(tokio: &Spread, other: &Spread, better: Better) -> Against {
    match (other.compare(tokio), better) {
        (spread::Outcome::Less(_), Better::Less) | (spread::Outcome::More(_), Better::More) => {
            Against::Better
        }
        (spread::Outcome::Less(_), Better::More) | (spread::Outcome::More(_), Better::Less) => {
            Against::Worse
        }
        (spread::Outcome::NoDifference, _) => Against::Same,
        (spread::Outcome::TooFew, _) => Against::Open,
    }
}

/// The definition of a ratio, for all tables.
const RATIO_NOTE: &str = "A ratio is ours / tokio's (of rates, tokio's / ours): below 1 is better. ± is half of what \
                          rounds lie apart.";

fn ratio(tokio: f64, value: f64, better: Better) -> Option<f64> {
    let ratio = match better {
        Better::Less => value / tokio,
        Better::More => tokio / value,
    };
    ratio.is_finite().then_some(ratio)
}

fn each(totals: &Totals, of: impl Fn(&Total) -> Option<f64>) -> Values {
    Values {
        figures: totals.each_ref().map(&of),
        spreads: totals.each_ref().map(|total| total.spread(&of)),
    }
}

/// Returns the rows of a distribution of lateness.
fn lateness(totals: &Totals, of: impl Fn(&Total) -> &Late) -> Vec<Row> {
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

/// Formats counts and rates as whole numbers.
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

/// Returns the whole table.
pub(crate) fn groups(settings: &Settings, totals: &Totals) -> Vec<Group> {
    let count = |of: fn(&Total) -> u64| each(totals, |total| Some(of(total) as f64));
    let mut paced = vec![row(
        "ticks",
        count(|total| total.paced.histogram.len()),
        None,
        whole,
    )];
    paced.push(allowed(settings));
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
            rows: requests(totals),
        },
        Group {
            heading: "cost of one operation".to_owned(),
            rows: operations(totals),
        },
        Group {
            heading: "cost of the server, its timers and the sender".to_owned(),
            rows: threads(totals),
        },
    ]
}

/// Returns the rows about the clients' view of the server.
fn requests(totals: &Totals) -> Vec<Row> {
    let latency = |share| {
        each(totals, move |total| {
            let nanos = total.latency.quantile(share)?;
            Some(nanos as f64)
        })
    };
    vec![
        row(
            "a second",
            each(totals, |total| total.rate(total.window.requests)),
            Some(Better::More),
            whole,
        ),
        row("took, p50", latency(0.5), Some(Better::Less), units::nanos),
        row("p99", latency(0.99), Some(Better::Less), units::nanos),
    ]
}

/// Returns the row of the lateness that timers choose: the lateness beyond it is the machine's.
fn allowed(settings: &Settings) -> Row {
    let values = Values {
        figures: Arm::ALL.map(|arm| Some(arm.allowed(settings).as_nanos() as f64)),
        spreads: [None; Arm::COUNT],
    };
    row("late by choice, max", values, None, |nanos| {
        units::time(Duration::from_secs_f64(nanos / 1e9))
    })
}

/// Returns the rows about operations on a timer.
fn operations(totals: &Totals) -> Vec<Row> {
    let operation = |label, of: fn(&Total) -> &Vec<f64>| {
        let values = each(totals, |total| median(of(total)));
        row(label, values, Some(Better::Less), units::nanos)
    };
    vec![
        operation("push a deadline out", |total| &total.push),
        operation("arm and drop it", |total| &total.arm),
    ]
}

/// Returns the rows about the threads that execute the server and its timers.
fn threads(totals: &Totals) -> Vec<Row> {
    let less = Some(Better::Less);
    let mut sets = each(totals, |total| total.rate(total.window.sets));
    // tokio hands its next deadline to the system call that waits, and the expiry thread does as well.
    for arm in [Arm::Tokio, Arm::Tickless] {
        sets.figures[arm.index()] = None;
    }
    vec![
        row("of one CPU", each(totals, Total::load), less, percent),
        row(
            "wake-ups a second",
            each(totals, |total| total.rate(total.window.usage.wakeups)),
            less,
            whole,
        ),
        row(
            "system calls, 1/s",
            each(totals, |total| total.syscalls),
            less,
            whole,
        ),
        row("timerfd_settime, 1/s", sets, None, whole),
    ]
}

/// The columns of a group: its heading, and for each arm the figure with the spread of its rounds, and the ratio.
const HEAD: [&str; 2 * Arm::COUNT] = [
    "",
    Arm::Tokio.short_name(),
    Arm::Tickless.short_name(),
    "ratio",
    Arm::Reactor.short_name(),
    "ratio",
    Arm::Slack.short_name(),
    "ratio",
    Arm::Worker.short_name(),
    "ratio",
];

/// Returns the tables of the report, with their headings; the last table ends with a note.
pub(crate) fn tables(outcome: &Outcome) -> Vec<(Cow<'static, str>, Grid)> {
    let groups = groups(&outcome.settings, &outcome.totals).into_iter();
    let grids = groups.map(|group| {
        let grid = Grid {
            head: HEAD.to_vec(),
            left: 1,
            rows: group.rows.into_iter().map(cells).collect(),
            note: "",
        };
        (sentence_case(&group.heading).into(), grid)
    });
    let mut tables: Vec<_> = grids.collect();
    if let Some((_, grid)) = tables.last_mut() {
        grid.note = RATIO_NOTE;
    }
    tables.push(("Checks".into(), checks(&outcome.checks)));
    tables
}

fn cells(row: Row) -> Vec<String> {
    let mut cells = vec![row.label.to_owned()];
    for (arm, cell) in Arm::ALL.into_iter().zip(row.cells) {
        cells.push(match &*cell.spread {
            "" => cell.text,
            spread => format!("{} {spread}", cell.text),
        });
        if arm != Arm::Tokio {
            cells.push(cell.ratio);
        }
    }
    cells
}

/// Returns the checks, each with the counts that it judged.
fn checks(checks: &[Check]) -> Grid {
    let row = |check: &Check| {
        let holds = if check.holds { "ok" } else { "FAILED" };
        vec![
            holds.to_owned(),
            check.name.to_owned(),
            check.detail.clone(),
        ]
    };
    Grid {
        head: vec!["", "check", "counted"],
        left: 3,
        rows: checks.iter().map(row).collect(),
        note: "",
    }
}

/// Writes the first letter large.
pub(super) fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Columns of the short table: the label, tokio's figure, and one of the others with its ratio; 80 together.
const SHORT_LABEL: usize = 16;
const SHORT_FIGURE: usize = 8;
const SHORT_RATIO: usize = 6;
/// The rows of the short table, by their group's heading and their label.
const SHORT: [(&str, &str, &str); 8] = [
    ("paced ticks", "late, p50", "ticks late p50"),
    ("paced ticks", "p99.9", "ticks late p99.9"),
    ("idle timeouts", "late, p50", "idle late p50"),
    ("requests", "p99", "request p99"),
    ("cost of one operation", "push a deadline out", "push out"),
    ("cost of one operation", "arm and drop it", "arm and drop"),
    ("cost of the server", "of one CPU", "of one CPU"),
    ("cost of the server", "wake-ups a second", "wake-ups, 1/s"),
];

/// Returns the rows that answer most questions, in 80 columns.
pub(crate) fn short(outcome: &Outcome) -> String {
    let groups = groups(&outcome.settings, &outcome.totals);
    let mut lines = Vec::new();
    let mut line = |label: &str, cells: [(String, String); Arm::COUNT]| {
        let mut text = format!("{label:SHORT_LABEL$}");
        for (arm, (figure, ratio)) in Arm::ALL.iter().zip(cells) {
            // Writing to a string cannot fail.
            let _infallible = match arm {
                Arm::Tokio => write!(text, "{figure:>width$}", width = SHORT_FIGURE),
                // A heading stands above both.
                _ if ratio.is_empty() => {
                    write!(text, "{figure:>width$}", width = SHORT_FIGURE + SHORT_RATIO)
                }
                _ => write!(text, "{figure:>SHORT_FIGURE$}{ratio:>SHORT_RATIO$}"),
            };
        }
        lines.push(text.trim_end().to_owned());
    };
    let heads = Arm::ALL.map(|arm| (arm.short_name().to_owned(), String::new()));
    line("", heads);
    for (heading, label, shown) in SHORT {
        let group = groups
            .iter()
            .find(|group| group.heading.starts_with(heading));
        let mut rows = group.iter().flat_map(|group| &group.rows);
        if let Some(row) = rows.find(|row| row.label == label) {
            let cells = row.cells.each_ref();
            line(
                shown,
                cells.map(|cell| (cell.text.clone(), cell.ratio.clone())),
            );
        }
    }
    let tally = Arm::ALL.map(|arm| {
        let count = |wanted: &[Against]| {
            let rows = groups.iter().flat_map(|group| &group.rows);
            { rows }
                .filter(|row| wanted.contains(&row.against[arm.index()]))
                .count()
        };
        let judged = count(&[Against::Better, Against::Worse, Against::Same]);
        let text = match judged {
            0 => "-".to_owned(),
            _ => format!(
                "{}, {}",
                count(&[Against::Better]),
                count(&[Against::Worse])
            ),
        };
        (text, String::new())
    });
    line("better, worse", tally);
    lines.join("\n") + "\n"
}

/// Formats the checks, and whether the run may be quoted, in a line; each check that failed gets another line.
pub(crate) fn short_checks(outcome: &Outcome) -> String {
    let failed = outcome.checks.iter().filter(|check| !check.holds);
    let mut out = format!(
        "{} of {} checks hold; {} (--all).\n",
        outcome.checks.iter().filter(|check| check.holds).count(),
        outcome.checks.len(),
        match outcome.not_quotable {
            None => "steady enough to quote",
            Some(_) => "not steady enough to quote",
        }
    );
    for check in failed {
        let _infallible = writeln!(out, "FAILED {} ({})", check.name, check.detail);
    }
    out
}

/// The result in plain words, a paragraph each: the two figures that the library is about, and then by one rule which
/// figures of each column are better than tokio's, and which are worse.
pub(crate) fn sentences(settings: &Settings, totals: &Totals) -> Vec<String> {
    let median = |late: &Late| late.quantile(0.5).map(|nanos| nanos as f64);
    let total = |arm: Arm| &totals[arm.index()];
    let Some(before) = median(&total(Arm::Tokio).paced) else {
        return vec![NOTHING.to_owned()];
    };
    let mut columns = Vec::new();
    for arm in Arm::ALL.into_iter().skip(1) {
        let Some(after) = median(&total(arm).paced) else {
            return vec![NOTHING.to_owned()];
        };
        columns.push(format!(
            "{} with {} (ratio {})",
            units::nanos(after),
            arm.in_words(),
            units::ratio(after / before)
        ));
    }
    let mut first = format!(
        "Paced ticks were {} late with tokio::time at the median, {}",
        units::nanos(before),
        columns.join(", ")
    );
    let idle = |arm| median(&total(arm).idle);
    if let (Some(before), Some(after)) = (idle(Arm::Tokio), idle(Arm::Tickless)) {
        let _infallible = write!(
            first,
            "; idle timeouts {} with tokio::time, {} with tickless::time (ratio {})",
            units::nanos(before),
            units::nanos(after),
            units::ratio(after / before)
        );
    }
    first.push('.');
    let groups = groups(settings, totals);
    let verdicts = Arm::ALL
        .into_iter()
        .skip(1)
        .map(|arm| verdict(&groups, arm));
    std::iter::once(first).chain(verdicts).collect()
}

const NOTHING: &str = "The run ended before every kind of timer had its turn: nothing to compare.";

/// Each figure of an arm that is better than tokio's by more than the rounds differ, and each that is worse.
fn verdict(groups: &[Group], arm: Arm) -> String {
    let compared = groups.iter().flat_map(|group| &group.rows);
    let compared = compared.filter(|row| row.against[arm.index()] != Against::Open);
    let compared = compared.count();
    if compared == 0 {
        return format!(
            "With {}, no figure has {ROUNDS_MIN} rounds on both sides, so none is judged; use --rounds {ROUNDS_MIN} \
             and a longer --duration.",
            arm.in_words()
        );
    }
    let named = |wanted| {
        let mut count = 0;
        let mut parts = Vec::new();
        for group in groups {
            let rows = group.rows.iter();
            let rows = rows.filter(|row| row.against[arm.index()] == wanted);
            let rows: Vec<String> = rows
                .map(|row| {
                    let [figure, tokio] = [arm, Arm::Tokio].map(|arm| &row.cells[arm.index()].text);
                    format!("{} {figure} for {tokio}", row.label)
                })
                .collect();
            count += rows.len();
            if !rows.is_empty() {
                let heading = group.heading.split(',').next().unwrap_or_default();
                parts.push(format!("{heading}: {}", rows.join(", ")));
            }
        }
        (count, parts.join("; "))
    };
    let (better, gains) = named(Against::Better);
    let (worse, losses) = named(Against::Worse);
    let list = |what: &str| {
        if what.is_empty() {
            String::new()
        } else {
            format!(" ({what})")
        }
    };
    format!(
        "With {}, {worse} of {} figures were worse than tokio's by more than the rounds differ{}; {better} better{}.",
        arm.in_words(),
        compared,
        list(&losses),
        list(&gains),
    )
}

#[cfg(test)]
mod tests {
    use super::{Against, Better, SHORT, Values, groups, row, sentences, whole};
    use crate::demo::arguments::Settings;
    use crate::demo::subject::Arm;
    use crate::demo::totals::{Total, Totals, none};
    use crate::spread::Spread;
    use crate::units;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    /// Figures that were the same in each of three rounds.
    fn steady(figures: [Option<f64>; Arm::COUNT]) -> Values {
        Values {
            figures,
            spreads: figures.map(|figure| Spread::of([figure?; 3])),
        }
    }

    /// Returns the spread of three rounds, with a median in the middle.
    fn rounds((least, greatest): (f64, f64)) -> Option<Spread> {
        Spread::of([least, f64::midpoint(least, greatest), greatest])
    }

    /// Returns the same totals after `rounds` rounds with equal figures.
    fn in_rounds(mut totals: Totals, rounds: usize) -> Totals {
        for total in &mut totals {
            total.parts = vec![total.clone(); rounds];
        }
        totals
    }

    fn totals(lateness: [u64; Arm::COUNT]) -> Totals {
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
    fn a_ratio_below_one_is_better_whichever_way_better_is() {
        let figures = [1_000.0, 100.0, 2_000.0, 1_000.0, 10.0].map(Some);
        let ratios = |better| {
            let row = row("late", steady(figures), better, units::nanos);
            row.cells.map(|cell| cell.ratio)
        };
        let less = ["", "0.10", "2.00", "1.00", "0.01"];
        assert_eq!(ratios(Some(Better::Less)), less);
        let more = ["", "10.0", "0.50", "1.00", "100"];
        assert_eq!(ratios(Some(Better::More)), more);
        assert_eq!(ratios(None), [""; Arm::COUNT]);
    }

    #[test]
    fn what_is_unknown_is_a_dash_and_compares_with_nothing() {
        let figures = [None, Some(5.0), Some(0.0), None, None];
        let row = row("rate", steady(figures), Some(Better::Less), whole);
        let texts = row.cells.map(|cell| (cell.text, cell.ratio));
        let of = |text: &str| (text.to_owned(), String::new());
        assert_eq!(texts, [of("-"), of("5"), of("0"), of("-"), of("-")]);
    }

    #[test]
    fn every_row_has_its_figure_of_every_arm() {
        let groups = groups(&Settings::sample(), &totals([1_000, 50, 40, 990, 20]));
        let headings: Vec<_> = groups.iter().map(|group| group.heading.as_str()).collect();
        assert_eq!(headings[0], "paced ticks, every 200 µs");
        assert_eq!(headings.len(), 6);
        let allowed = groups[0].rows[1].cells.each_ref().map(|cell| &*cell.text);
        assert_eq!(allowed, ["2 ms", "0 ns", "0 ns", "1 ms", "0 ns"]);
        let median = &groups[0].rows[2];
        assert_eq!(median.label, "late, p50");
        let cells = median.cells.each_ref().map(|cell| &*cell.ratio);
        assert_eq!(cells[0], "");
        for (cell, begins) in cells[1..].iter().zip(["0.05", "0.04", "0.99", "0.02"]) {
            assert!(cell.starts_with(begins), "{cell}");
        }
    }

    #[test]
    fn the_first_sentence_has_each_figure_and_its_ratio() {
        let all = totals([1_000, 50, 40, 1_000, 2_000]);
        let text = &sentences(&Settings::sample(), &all)[0];
        for part in [
            "50.0 µs with tickless::time (ratio 0.05)",
            "40.0 µs with the reactor (ratio 0.04)",
            "2.00 ms with a Worker (ratio 2.00)",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let mut cut = none();
        [cut[0], ..] = totals([1; Arm::COUNT]);
        let text = sentences(&Settings::sample(), &cut).concat();
        assert!(text.contains("nothing to compare"), "{text}");
    }

    #[test]
    fn what_the_rounds_differ_by_decides_what_is_better_or_worse() {
        let against = |tokio, other, better| {
            let values = Values {
                figures: [Some(10.0); Arm::COUNT],
                spreads: [rounds(tokio), rounds(other), None, None, None],
            };
            row("late", values, better, units::nanos).against
        };
        let less = Some(Better::Less);
        let [_, overlapping, unknown, ..] = against((10.0, 14.0), (13.0, 20.0), less);
        assert_eq!((overlapping, unknown), (Against::Same, Against::Open));
        assert_eq!(against((10.0, 14.0), (15.0, 20.0), less)[1], Against::Worse);
        assert_eq!(against((10.0, 14.0), (2.0, 9.0), less)[1], Against::Better);
        let more = Some(Better::More);
        assert_eq!(against((10.0, 14.0), (2.0, 9.0), more)[1], Against::Worse);
        assert_eq!(against((10.0, 14.0), (2.0, 9.0), None)[1], Against::Open);
    }

    #[test]
    fn the_spread_is_half_of_what_rounds_lie_apart() {
        let spreads = |better| {
            let values = Values {
                figures: [Some(100.0), Some(100.0), Some(0.0), None, Some(1.0)],
                spreads: [
                    rounds((85.0, 115.0)),
                    rounds((100.0, 100.0)),
                    Spread::of([0.0, 0.0, 1.0]),
                    Spread::of([90.0, 120.0]),
                    Spread::of([1.0, 1.0, 99.0]),
                ],
            };
            row("late", values, better, units::nanos)
                .cells
                .map(|cell| cell.spread)
        };
        assert_eq!(spreads(Some(Better::Less)), ["±15%", "±0%", "", "", "±>9×"]);
        assert_eq!(spreads(None), [""; Arm::COUNT], "of what is not compared");
    }

    /// The heads of the table of the README that has rows of the terminal.
    const ROWS: &str = "| row of the terminal | ours / tokio's |";

    /// Returns what the README says of costs and the page on performance does not say in the same words.
    fn differences(costs: &str, performance: &str) -> Vec<String> {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let performance_words = words(performance);
        let is_said = |line: &&str| performance.lines().any(|other| other == *line);
        let rows = costs.lines().filter(|line| line.starts_with('|'));
        let mut missing: Vec<_> = { rows.filter(|line| !is_said(line)) }
            .map(str::to_owned)
            .collect();
        // The rows that are named as on the terminal, in its order.
        let shown = SHORT.map(|(_, _, shown)| shown);
        let (_, server) = costs.split_once(ROWS).expect("the rows of the terminal");
        let places: Vec<_> = { server.lines().skip(2) }
            .map_while(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(label, _)| shown.iter().position(|shown| *shown == label))
            .collect();
        let arm = shown.iter().position(|shown| *shown == "arm and drop");
        if !places.is_sorted() || places.contains(&None) || !places.contains(&arm) {
            missing.push(format!("rows of {shown:?}"));
        }
        let prose = costs.lines().filter(|line| !line.starts_with('|'));
        let prose = words(&prose.collect::<Vec<_>>().join(" "));
        let prose: Vec<_> = prose.split(' ').collect();
        for pair in prose.windows(2) {
            let [word, next] = [pair[0], pair[1]]
                .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
            let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
            let figure = match next {
                "ns" | "µs" | "ms" if is_number => format!("{word} {next}"),
                _ if is_number && word.contains('.') => word.to_owned(),
                _ if word == "commit" => format!("commit {next}"),
                _ => continue,
            };
            if !performance_words.contains(&figure) {
                missing.push(figure);
            }
        }
        missing
    }

    #[test]
    fn the_readme_and_the_page_on_performance_quote_the_terminal_alike() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = |name| fs::read_to_string(root.join(name)).expect("the page");
        let (readme, performance) = (page("README.md"), page("docs/performance.md"));
        let (_, costs) = readme.split_once("## What it costs\n").expect("a section");
        let (costs, _) = costs.split_once("\n## ").expect("another one");
        assert_eq!(differences(costs, &performance), Vec::<String>::new());

        for (said, instead) in [
            ("`arm and drop`", "`arm and cancel`"),
            ("1.25 to 1.31", "1.05 to 1.31"),
            ("| arm and drop, 1,000 pending |", "| arm and drop |"),
            ("later than 3.5 ms", "later than 2.5 ms"),
            ("commit ae87cc9", "commit ae87cc8"),
        ] {
            let other = costs.replace(said, instead);
            assert_ne!(
                differences(&other, &performance),
                Vec::<String>::new(),
                "{said}"
            );
        }
    }

    /// Checks that figures which are worse by more than their spread are named, as well as those that are better.
    #[test]
    fn each_figure_that_is_worse_or_better_is_named() {
        let mut totals = totals([1_000, 50, 40, 990, 20]);
        for (total, push) in totals.iter_mut().zip([11.0, 25.0, 10.0, 11.0, 11.0]) {
            total.push = vec![push];
        }
        let few = in_rounds(totals.clone(), 2);
        let totals = in_rounds(totals, 3);
        let [_, tickless, reactor, slack, _] = sentences(&Settings::sample(), &totals)
            .try_into()
            .expect("one for each column");
        for (text, part) in [
            (
                &tickless,
                "1 of 3 figures were worse than tokio's by more than the rounds differ (cost of one operation: push a \
                 deadline out 25.0 ns for 11.0 ns)",
            ),
            (&tickless, "; 2 better (paced ticks: late, p50 50"),
            (&reactor, "With the reactor, 0 of 3 figures were worse"),
            (&reactor, "push a deadline out 10.0 ns for 11.0 ns)."),
            (&slack, "differ; 2 better ("),
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        for text in &sentences(&Settings::sample(), &few)[1..] {
            assert!(
                text.contains("no figure has 3 rounds on both sides"),
                "{text}"
            );
        }
    }
}
