//! The figures of the demo, their tables, and what they say.

use std::fmt::Write;

use serde::Serialize;

use super::subject::Arm;
use super::tally::{Part, Totals, median};
use crate::spread::{Outcome as Compared, ROUNDS_MIN, Spread};
use crate::table::Grid;
use crate::units;

/// A fact that has to be true, and the result of the check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) holds: bool,
    /// The counts that the check judged.
    pub(crate) detail: String,
}

/// A figure of each column.
pub(crate) struct Row {
    /// The name in the JSON document.
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) label: &'static str,
    /// The label in the short table, if the row is in it.
    short: Option<&'static str>,
    pub(crate) of: fn(&Part) -> Option<f64>,
    /// The direction that is better; `None` where neither is.
    better: Option<Better>,
    pub(crate) show: fn(f64) -> String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Better {
    Less,
    More,
}

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

const TICKS: &str = "paced ticks";
const IDLE: &str = "idle timeouts";
const HEADER: &str = "header timeouts";
const REQUESTS: &str = "requests";
const OPERATION: &str = "cost of one operation";
const SERVER: &str = "cost of the server, its timers and the sender";

const fn row(
    name: &'static str,
    group: &'static str,
    label: &'static str,
    short: Option<&'static str>,
    of: fn(&Part) -> Option<f64>,
    (better, show): (Option<Better>, fn(f64) -> String),
) -> Row {
    Row {
        name,
        group,
        label,
        short,
        of,
        better,
        show,
    }
}

type Kind = (Option<Better>, fn(f64) -> String);
const TIME: Kind = (Some(Better::Less), units::nanos);
const COUNT: Kind = (None, whole);
const RATE: Kind = (Some(Better::More), whole);

fn some(count: u64) -> Option<f64> {
    Some(count as f64)
}

/// All figures, in the order of the table.
#[rustfmt::skip]
pub(crate) const ROWS: [Row; 19] = [
    row("paced_count", TICKS, "ticks", None, |part| some(part.paced.count()), COUNT),
    row("paced_p50_ns", TICKS, "late, p50", Some("ticks late p50"), |part| part.paced.quantile(0.5), TIME),
    row("paced_p99_ns", TICKS, "p99", None, |part| part.paced.quantile(0.99), TIME),
    row("paced_p999_ns", TICKS, "p99.9", Some("ticks late p99.9"), |part| part.paced.quantile(0.999), TIME),
    row("paced_max_ns", TICKS, "max", None, |part| part.paced.max(), TIME),
    row("idle_count", IDLE, "fired", None, |part| some(part.idle.count()), COUNT),
    row("idle_p50_ns", IDLE, "late, p50", Some("idle late p50"), |part| part.idle.quantile(0.5), TIME),
    row("idle_p99_ns", IDLE, "p99", None, |part| part.idle.quantile(0.99), TIME),
    row("idle_p999_ns", IDLE, "p99.9", None, |part| part.idle.quantile(0.999), TIME),
    row("header_count", HEADER, "fired", None, |part| some(part.header.count()), COUNT),
    row("header_p50_ns", HEADER, "late, p50", None, |part| part.header.quantile(0.5), TIME),
    row("header_p99_ns", HEADER, "p99", None, |part| part.header.quantile(0.99), TIME),
    row("requests_per_second", REQUESTS, "a second", None, |part| part.rate(part.window.requests), RATE),
    row("request_p50_ns", REQUESTS, "took, p50", None, |part| part.latency.quantile(0.5), TIME),
    row("request_p99_ns", REQUESTS, "p99", Some("request p99"), |part| part.latency.quantile(0.99), TIME),
    row("push_ns", OPERATION, "push a deadline out", Some("push out"), |part| median(&part.push), TIME),
    row("arm_and_drop_ns", OPERATION, "arm and drop it", Some("arm and drop"), |part| median(&part.arm), TIME),
    row("cpu_percent", SERVER, "of one CPU", Some("of one CPU"), Part::load, (Some(Better::Less), percent)),
    row("wakeups_per_second", SERVER, "wake-ups a second", Some("wake-ups, 1/s"),
        |part| part.rate(part.window.usage.wakeups), (Some(Better::Less), whole)),
];

impl Row {
    /// Returns the figure of a column, over all its rounds.
    pub(crate) fn figure(&self, totals: &Totals, arm: Arm) -> Option<f64> {
        (self.of)(&totals[arm.index()].sum)
    }

    fn text(&self, totals: &Totals, arm: Arm) -> String {
        let figure = self.figure(totals, arm);
        figure.map_or_else(|| "-".to_owned(), self.show)
    }

    /// Returns the ratio to tokio's figure, below 1 if better; `None` where neither direction is better.
    pub(crate) fn ratio(&self, totals: &Totals, arm: Arm) -> Option<f64> {
        let (ours, tokio) = (self.figure(totals, arm)?, self.figure(totals, Arm::Tokio)?);
        let ratio = match self.better? {
            Better::Less => ours / tokio,
            Better::More => tokio / ours,
        };
        (arm != Arm::Tokio && ratio.is_finite()).then_some(ratio)
    }

    fn ratio_text(&self, totals: &Totals, arm: Arm) -> String {
        self.ratio(totals, arm)
            .map_or_else(String::new, units::ratio)
    }

    fn spread(&self, totals: &Totals, arm: Arm) -> Option<Spread> {
        totals[arm.index()].spread(self.of)
    }

    /// Formats the figure, with half of the range of its rounds as a share of their median.
    fn text_with_spread(&self, totals: &Totals, arm: Arm) -> String {
        let text = self.text(totals, arm);
        let spread = self.better.and(self.spread(totals, arm));
        match spread.and_then(|spread| spread.half_apart()) {
            None => text,
            Some(share) if share < 9.995 => format!("{text} ±{:.0}%", 100.0 * share),
            Some(_) => format!("{text} ±>9×"),
        }
    }

    /// Compares the figure with tokio's by the one rule for better and worse: enough rounds have the figure, and the
    /// rounds of one side do not overlap with those of the other.
    pub(crate) fn against(&self, totals: &Totals, arm: Arm) -> Against {
        let spread = |arm| self.spread(totals, arm);
        let (Some(better), Some(ours), Some(tokio), false) = (
            self.better,
            spread(arm),
            spread(Arm::Tokio),
            arm == Arm::Tokio,
        ) else {
            return Against::Open;
        };
        match (ours.compare(&tokio), better) {
            (Compared::Less, Better::Less) | (Compared::More, Better::More) => Against::Better,
            (Compared::Less | Compared::More, _) => Against::Worse,
            (Compared::NoDifference, _) => Against::Same,
            (Compared::TooFew, _) => Against::Open,
        }
    }
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

const RATIO_NOTE: &str = "A ratio is ours / tokio's (of rates, tokio's / ours): below 1 is better. ± is half of what \
                          rounds lie apart.";

/// Returns the tables of the report, with their headings.
pub(crate) fn tables(totals: &Totals, checks: &[Check]) -> Vec<(&'static str, Grid)> {
    let mut head = vec!["", Arm::Tokio.name()];
    head.extend(Arm::others().flat_map(|arm| [arm.name(), "ratio"]));
    let groups = ROWS.chunk_by(|row, next| row.group == next.group);
    let grids = groups.map(|rows| {
        let cells = |row: &Row| {
            let mut cells = vec![
                row.label.to_owned(),
                row.text_with_spread(totals, Arm::Tokio),
            ];
            for arm in Arm::others() {
                cells.push(row.text_with_spread(totals, arm));
                cells.push(row.ratio_text(totals, arm));
            }
            cells
        };
        let grid = Grid {
            head: head.clone(),
            left: 1,
            rows: rows.iter().map(cells).collect(),
            note: if rows[0].group == SERVER {
                RATIO_NOTE
            } else {
                ""
            },
        };
        (rows[0].group, grid)
    });
    let check = |check: &Check| {
        let holds = if check.holds { "ok" } else { "FAILED" };
        vec![
            holds.to_owned(),
            check.name.to_owned(),
            check.detail.clone(),
        ]
    };
    let checks = Grid {
        head: vec!["", "check", "counted"],
        left: 3,
        rows: checks.iter().map(check).collect(),
        note: "",
    };
    grids.chain(std::iter::once(("checks", checks))).collect()
}

/// Returns the rows that answer most questions, in 80 columns.
pub(crate) fn short(totals: &Totals) -> String {
    let mut lines = Vec::new();
    let mut line = |label: &str, cell: &dyn Fn(Arm) -> (String, String)| {
        let mut text = format!("{label:16}{:>8}", cell(Arm::Tokio).0);
        for arm in Arm::others() {
            // Writing to a string cannot fail.
            let _infallible = match cell(arm) {
                // Stands above both.
                (text_of_both, ratio) if ratio.is_empty() => write!(text, "{text_of_both:>14}"),
                (figure, ratio) => write!(text, "{figure:>8}{ratio:>6}"),
            };
        }
        lines.push(text.trim_end().to_owned());
    };
    line("", &|arm| (arm.name().to_owned(), String::new()));
    for row in &ROWS {
        if let Some(label) = row.short {
            line(label, &|arm| {
                (row.text(totals, arm), row.ratio_text(totals, arm))
            });
        }
    }
    line("better, worse", &|arm| {
        let [better, worse, same] = [Against::Better, Against::Worse, Against::Same]
            .map(|wanted| against(totals, arm, wanted).count());
        let text = match better + worse + same {
            0 => "-".to_owned(),
            _ => format!("{better}, {worse}"),
        };
        (text, String::new())
    });
    lines.join("\n") + "\n"
}

/// Returns the rows whose comparison with tokio's came out so.
fn against(totals: &Totals, arm: Arm, wanted: Against) -> impl Iterator<Item = &'static Row> {
    const ALL: &[Row] = &ROWS;
    ALL.iter()
        .filter(move |row| row.against(totals, arm) == wanted)
}

/// Formats the checks in a line; each check that failed gets another line.
pub(crate) fn short_checks(checks: &[Check]) -> String {
    let holding = checks.iter().filter(|check| check.holds).count();
    let mut out = format!("{holding} of {} checks hold.\n", checks.len());
    for check in checks.iter().filter(|check| !check.holds) {
        let _infallible = writeln!(out, "FAILED {} ({})", check.name, check.detail);
    }
    out
}

/// The result in plain words: by one rule, which figures of each column are worse than tokio's, and which are better.
pub(crate) fn sentences(totals: &Totals) -> Vec<String> {
    let verdict = |arm: Arm| {
        let named = |wanted| {
            let rows = against(totals, arm, wanted).map(|row| {
                let [figure, tokio] = [arm, Arm::Tokio].map(|arm| row.text(totals, arm));
                format!("{}: {} {figure} for {tokio}", row.group, row.label)
            });
            rows.collect::<Vec<_>>()
        };
        let [worse, better] = [Against::Worse, Against::Better].map(named);
        let judged = worse.len() + better.len() + against(totals, arm, Against::Same).count();
        let list = |rows: &[String]| match rows {
            [] => String::new(),
            _ => format!(" ({})", rows.join("; ")),
        };
        (judged > 0).then(|| {
            format!(
                "{}: {} of {judged} figures were worse than tokio's by more than the rounds differ{}; {} better{}.",
                arm.name(),
                worse.len(),
                list(&worse),
                better.len(),
                list(&better),
            )
        })
    };
    let verdicts: Vec<String> = Arm::others().filter_map(verdict).collect();
    if verdicts.is_empty() {
        return vec![format!(
            "There is nothing to compare: no figure has {ROUNDS_MIN} rounds on both sides; use --rounds {ROUNDS_MIN} \
             and a longer --duration."
        )];
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::{Against, ROWS, Row, sentences};
    use crate::demo::subject::Arm;
    use crate::demo::tally::{Part, Totals};
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    fn named(name: &str) -> &'static Row {
        static ALL: &[Row] = &ROWS;
        let row = ALL.iter().find(|row| row.name == name);
        row.expect("the name is one of the table")
    }

    /// Returns the totals of rounds in which pushing a deadline out took so long, in each column.
    fn pushes(rounds: [&[f64]; 5]) -> Totals {
        let mut totals = Totals::default();
        for (total, rounds) in totals.iter_mut().zip(rounds) {
            for push in rounds {
                total.add(Part {
                    push: vec![*push],
                    ..Part::default()
                });
            }
        }
        totals
    }

    /// Calls `of` for each column that every build has.
    fn each<T>(of: impl FnMut(Arm) -> T) -> Vec<T> {
        Arm::ALL.into_iter().take(5).map(of).collect()
    }

    #[test]
    fn a_ratio_below_one_is_better_whichever_way_better_is() {
        let totals = pushes([&[1_000.0], &[100.0], &[2_000.0], &[], &[0.0]]);
        let push = named("push_ns");
        let ratios = each(|arm| push.ratio_text(&totals, arm));
        assert_eq!(ratios, ["", "0.10", "2.00", "", "0.00"]);
        assert_eq!(push.text(&totals, Arm::Slack), "-", "what is unknown");
        let mut totals = Totals::default();
        for (total, requests) in totals.iter_mut().zip([100, 50, 100, 200, 0]) {
            total.sum.window.length = Duration::from_secs(1);
            total.sum.window.requests = requests;
        }
        let rate = named("requests_per_second");
        let ratios = each(|arm| rate.ratio_text(&totals, arm));
        assert_eq!(ratios, ["", "2.00", "1.00", "0.50", ""]);
    }

    #[test]
    fn what_the_rounds_differ_by_decides_what_is_better_or_worse() {
        let totals = pushes([
            &[10.0, 11.0, 14.0],
            &[13.0, 15.0, 20.0],
            &[15.0, 16.0, 20.0],
            &[2.0, 3.0, 9.0],
            &[2.0, 3.0],
        ]);
        let push = named("push_ns");
        let against = each(|arm| push.against(&totals, arm));
        let expected = [
            Against::Open,
            Against::Same,
            Against::Worse,
            Against::Better,
            Against::Open,
        ];
        assert_eq!(against, expected);
        let texts = each(|arm| push.text_with_spread(&totals, arm));
        let spreads = texts.into_iter().map(|text| {
            text.split_once('±')
                .map_or(String::new(), |text| text.1.to_owned())
        });
        assert_eq!(
            spreads.collect::<Vec<_>>(),
            ["18%", "23%", "16%", "117%", ""]
        );

        let said = sentences(&totals);
        assert_eq!(said.len(), 3, "{said:?}");
        let named = "- reactor: 1 of 1 figures were worse than tokio's by more than the rounds differ (cost of one \
                     operation: push a deadline out 16.0 ns for 11.0 ns); 0 better.";
        assert_eq!(said[1], named);
        assert!(
            said[2].contains("; 1 better (cost of one operation: push"),
            "{said:?}"
        );
        let none = sentences(&Totals::default()).concat();
        assert!(none.contains("nothing to compare"), "{none}");
    }

    #[test]
    fn the_readme_and_the_page_on_performance_quote_the_terminal_alike() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = |name| fs::read_to_string(root.join(name)).expect("the page");
        let (readme, performance) = (page("README.md"), page("docs/performance.md"));
        let (_, costs) = readme.split_once("## What it costs\n").expect("a section");
        let (costs, _) = costs.split_once("\n## ").expect("another one");
        for row in costs.lines().filter(|line| line.starts_with('|')) {
            assert!(performance.lines().any(|line| line == row), "{row}");
        }
        let (_, rows) = costs
            .split_once("| row of the terminal |")
            .expect("a table");
        let rows = rows.lines().skip(2);
        let quoted = rows.map_while(|line| line.strip_prefix("| `")?.split_once('`'));
        let quoted: Vec<&str> = quoted.map(|(label, _)| label).collect();
        assert!(quoted.contains(&"arm and drop"), "{quoted:?}");
        for label in quoted {
            assert!(ROWS.iter().any(|row| row.short == Some(label)), "{label}");
        }
    }
}
