//! The table at the end of a check.

use std::fmt::Write;
use std::time::Duration;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// Passed, but a part of it was skipped.
    Partial,
    Skipped,
    Failed,
    /// An earlier step failed.
    NotRun,
}

impl Verdict {
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

/// One step with its result.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) step: String,
    pub(super) verdict: Verdict,
    pub(super) skips: Vec<String>,
    pub(super) duration: Duration,
}

/// The table, the skips and the count, as text without a final line end.
pub(super) fn table(rows: &[Row], total: Duration) -> String {
    let mut text = format!("{:<14}{:<16}{:>7}\n", "step", "result", "seconds");
    for row in rows {
        let seconds = match row.verdict {
            Verdict::NotRun => "-".into(),
            _ => format!("{:.1}", row.duration.as_secs_f64()),
        };
        put(
            &mut text,
            format_args!("{:<14}{:<16}{seconds:>7}\n", row.step, row.verdict.word()),
        );
    }
    for row in rows {
        for skip in &row.skips {
            put(&mut text, format_args!("skipped: {skip}\n"));
        }
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    put(
        &mut text,
        format_args!(
            "{} passed, {} passed in part, {} skipped, {} failed, {} not run in {:.1} s; {} skips",
            count(Verdict::Passed),
            count(Verdict::Partial),
            count(Verdict::Skipped),
            count(Verdict::Failed),
            count(Verdict::NotRun),
            total.as_secs_f64(),
            rows.iter().map(|row| row.skips.len()).sum::<usize>(),
        ),
    );
    text
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::{Row, Verdict, table};
    use std::time::Duration;

    #[test]
    fn the_table_lists_results_and_skips_and_counts_them() {
        let row = |step: &str, verdict, skips: &[&str]| Row {
            step: step.into(),
            verdict,
            skips: skips.iter().map(|&skip| skip.into()).collect(),
            duration: Duration::from_millis(1500),
        };
        let rows = [
            row("fmt", Verdict::Passed, &[]),
            row(
                "no-std",
                Verdict::Partial,
                &["the bare target, because of this"],
            ),
            row("miri", Verdict::Skipped, &["miri, because of that"]),
            row("msrv", Verdict::Failed, &[]),
            row("deny", Verdict::NotRun, &[]),
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
1 passed, 1 passed in part, 1 skipped, 1 failed, 1 not run in 6.0 s; 2 skips"
        );
    }
}
