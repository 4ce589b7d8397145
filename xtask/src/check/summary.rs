//! The table at the end of a check.

use std::fmt::Write;
use std::time::Duration;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepVerdict {
    Passed,
    /// The step passed, but a part of it was skipped.
    Partial,
    Skipped,
    Failed,
    /// An earlier step failed.
    NotRun,
}

impl StepVerdict {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Partial => "passed in part",
            Self::Skipped => "skipped",
            Self::Failed => "FAILED",
            Self::NotRun => "not run",
        }
    }
}

/// The outcome of a step, for the summary.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) verdict: StepVerdict,
    pub(super) skips: Vec<String>,
    /// The parts of the step, and the time that each took.
    pub(super) spent: Vec<(String, Duration)>,
    /// Findings that do not fail the check.
    pub(super) finds: Vec<String>,
    /// The programs that failed.
    pub(super) causes: Vec<Cause>,
    /// The reason why the step failed; empty if it did not.
    pub(super) failure: String,
}

impl Outcome {
    /// Returns the outcome of a step that did not begin.
    pub(super) const fn not_run() -> Self {
        Self {
            verdict: StepVerdict::NotRun,
            skips: Vec::new(),
            spent: Vec::new(),
            finds: Vec::new(),
            causes: Vec::new(),
            failure: String::new(),
        }
    }
}

/// A program that failed, with its output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) what: String,
    pub(super) output: String,
}

/// One step with its result.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) step: String,
    pub(super) outcome: Outcome,
    pub(super) duration: Duration,
}

/// A line between two steps, as wide as the text.
const RULE: &str =
    "################################################################################";

/// Formats the findings that do not fail the check, in a frame; empty if there are none.
pub(super) fn finds(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        for find in &row.outcome.finds {
            put(
                &mut text,
                format_args!("{RULE}\n## FOUND by {}: {find}\n{RULE}\n", row.step),
            );
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The number of lines that the end of the check shows of the output of one program that failed.
pub(super) const SHOWN: usize = 60;

/// Formats the end of the output of all that failed, without a final line end; empty if nothing failed.
pub(super) fn causes(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        for cause in &row.outcome.causes {
            put(&mut text, format_args!("-- {}: {}\n", row.step, cause.what));
            let lines: Vec<&str> = cause.output.lines().collect();
            for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                put(&mut text, format_args!("   {line}\n"));
            }
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The number of command lines and test programs that the list of the longest shows.
const LONGEST: usize = 15;

/// The time below which a command is left out of that list.
const SHORT: Duration = Duration::from_secs(5);

/// Formats the commands and programs that took longest, without a final line end; empty if none took long.
pub(super) fn longest(rows: &[Row]) -> String {
    let mut all: Vec<(&str, &str, Duration)> = rows
        .iter()
        .flat_map(|row| {
            let spent = row.outcome.spent.iter();
            spent.map(|(what, duration)| (&*row.step, &**what, *duration))
        })
        .filter(|(_, _, duration)| *duration >= SHORT)
        .collect();
    all.sort_by_key(|(_, _, duration)| std::cmp::Reverse(*duration));
    all.truncate(LONGEST);
    let mut text = String::new();
    for (step, what, duration) in all {
        let seconds = format!("{:.1}", duration.as_secs_f64());
        put(
            &mut text,
            format_args!("{step:<14}{seconds:>7} s  {what}\n"),
        );
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the table, the skips and the count, as text without a final line end.
pub(super) fn table(rows: &[Row], total: Duration) -> String {
    let mut text = format!("{:<14}{:<16}{:>7}\n", "step", "result", "seconds");
    for row in rows {
        let seconds = match row.outcome.verdict {
            StepVerdict::NotRun => "-".into(),
            _ => format!("{:.1}", row.duration.as_secs_f64()),
        };
        put(
            &mut text,
            format_args!(
                "{:<14}{:<16}{seconds:>7}\n",
                row.step,
                row.outcome.verdict.word()
            ),
        );
    }
    for row in rows {
        if !row.outcome.failure.is_empty() {
            put(
                &mut text,
                format_args!("failed: {}: {}\n", row.step, row.outcome.failure),
            );
        }
        for skip in &row.outcome.skips {
            put(&mut text, format_args!("skipped: {skip}\n"));
        }
    }
    let count = |verdict| {
        rows.iter()
            .filter(|row| row.outcome.verdict == verdict)
            .count()
    };
    put(
        &mut text,
        format_args!(
            "{} passed, {} passed in part, {} skipped, {} failed, {} not run in {:.1} s; {} skips",
            count(StepVerdict::Passed),
            count(StepVerdict::Partial),
            count(StepVerdict::Skipped),
            count(StepVerdict::Failed),
            count(StepVerdict::NotRun),
            total.as_secs_f64(),
            rows.iter()
                .map(|row| row.outcome.skips.len())
                .sum::<usize>(),
        ),
    );
    text
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::{Cause, Outcome, RULE, Row, SHOWN, StepVerdict, causes, finds, longest, table};
    use std::time::Duration;

    #[test]
    fn the_table_lists_results_and_skips_and_counts_them() {
        let row = |step: &str, verdict, skips: &[&str]| Row {
            step: step.into(),
            outcome: Outcome {
                verdict,
                skips: skips.iter().map(|&skip| skip.into()).collect(),
                failure: match verdict {
                    StepVerdict::Failed => "`one` failed".into(),
                    _ => String::new(),
                },
                ..Outcome::not_run()
            },
            duration: Duration::from_millis(1500),
        };
        let rows = [
            row("fmt", StepVerdict::Passed, &[]),
            row(
                "no-std",
                StepVerdict::Partial,
                &["the bare target, because of this"],
            ),
            row("miri", StepVerdict::Skipped, &["miri, because of that"]),
            row("msrv", StepVerdict::Failed, &[]),
            row("deny", StepVerdict::NotRun, &[]),
        ];
        assert_eq!(
            table(&rows, Duration::from_secs(6)),
            "\
step          result          seconds
fmt           passed              1.5
no-std        passed in part      1.5
miri          skipped             1.5
msrv          FAILED              1.5
deny          not run               -
skipped: the bare target, because of this
skipped: miri, because of that
failed: msrv: `one` failed
1 passed, 1 passed in part, 1 skipped, 1 failed, 1 not run in 6.0 s; 2 skips"
        );
    }

    #[test]
    fn what_was_found_stands_between_rules_with_its_step() {
        let row = |finds| Row {
            step: "worlds".into(),
            outcome: Outcome {
                finds,
                ..Outcome::not_run()
            },
            duration: Duration::ZERO,
        };
        assert_eq!(finds(&[row(Vec::new())]), "");
        let told = finds(&[row(vec!["one\ntwo".to_owned()])]);
        assert_eq!(
            told,
            format!("{RULE}\n## FOUND by worlds: one\ntwo\n{RULE}")
        );
    }

    #[test]
    fn the_end_of_what_a_failed_program_printed_stands_below_its_name() {
        let row = |causes| Row {
            step: "test".into(),
            outcome: Outcome {
                causes,
                ..Outcome::not_run()
            },
            duration: Duration::ZERO,
        };
        let cause = |what: &str, output: &str| Cause {
            what: what.to_owned(),
            output: output.to_owned(),
        };
        assert_eq!(causes(&[row(Vec::new())]), "");
        let two = row(vec![cause("one.rs", "why\nhow\n"), cause("two.rs", "")]);
        assert_eq!(
            causes(&[two]),
            "-- test: one.rs\n   why\n   how\n-- test: two.rs"
        );
        let long = "line\n".repeat(SHOWN) + "last";
        let told = causes(&[row(vec![cause("long.rs", &long)])]);
        assert_eq!(told.lines().count(), 1 + SHOWN);
        assert!(told.ends_with("\n   last"), "{told}");
    }

    #[test]
    fn what_took_longest_comes_first_and_what_took_little_not_at_all() {
        let spent = |what: &str, seconds| (what.to_owned(), Duration::from_secs(seconds));
        let row = |step: &str, spent| Row {
            step: step.into(),
            outcome: Outcome {
                spent,
                ..Outcome::not_run()
            },
            duration: Duration::ZERO,
        };
        let rows = [
            row("test", vec![spent("building", 9), spent("tests/one.rs", 1)]),
            row("loom", vec![spent("cargo test", 70)]),
        ];
        assert_eq!(
            longest(&rows),
            "loom             70.0 s  cargo test\ntest              9.0 s  building"
        );
        assert_eq!(longest(&[]), "");
    }
}
