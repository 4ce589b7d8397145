//! `tickless verify`: an independent check of a trace.
//!
//! The command shares nothing with the checkers of the simulator except the names of the promises. It follows only the
//! contents of the trace, whichever program wrote the trace.

mod check;
mod export;
mod findings;
mod read;
#[cfg(test)]
mod tests;
mod ticks;
mod timers;
mod tree;
mod walks;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, Progress, Screen};
use crate::shown;
use crate::table::{Align, table};
use crate::units;
use export::Export;
use findings::{Findings, Kept, Violation};
use read::Reader;

/// The name of the format in the first line of a trace.
pub(crate) const FORMAT: &str = "tickless-trace";
/// The version of the format that is written and read.
pub(crate) const VERSION: u64 = 1;

/// The promises that a trace can show, by name.
const PROMISES: [&str; 10] = [
    "never_early",
    "never_lost",
    "bounded_late",
    "one_migrator",
    "covered",
    "isolated_undisturbed",
    "cancel_means_not_running",
    "monotonic",
    "ticks_in_turn",
    "flushed_once",
];
const EARLY: usize = 0;
const LOST: usize = 1;
const LATE: usize = 2;
const MIGRATOR: usize = 3;
const COVERED: usize = 4;
const ISOLATED: usize = 5;
const CANCEL: usize = 6;
const MONOTONIC: usize = 7;
const TICKS: usize = 8;
const FLUSHED: usize = 9;

/// Checks a trace: were the promises kept?
///
/// A trace is the output of `tickless sim run --trace`; docs/trace.md describes it. It is read once, from the beginning
/// to the end, and memory grows only with the number of timers that are queued at one time. A trace that is not whole
/// is refused.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Trace; `-` is standard input
    #[arg(value_name = "TRACE.jsonl")]
    trace: PathBuf,

    /// Lateness that a timer may have, instead of the trace's limit
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    late_max: Option<Duration>,

    /// Write the trace as Chrome's trace events, for Perfetto, to this file; `-` is standard output
    #[arg(long, value_name = "PATH")]
    chrome: Option<output::Place>,

    /// Write the trace as text of ftrace, with the events that the kernel has, to this file; `-` is standard output
    #[arg(long, value_name = "PATH")]
    ftrace: Option<output::Place>,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim run my.toml --trace my.jsonl && tickless verify my.jsonl
  tickless sim run my.toml --trace - | tickless verify -
  tickless verify my.jsonl --late-max 12ms
  tickless verify my.jsonl --chrome my.json --ftrace my.txt
  tickless verify my.jsonl --json - | jq '.violations[0]'

Exit codes: 0 every promise was kept, 1 one was broken, 2 bad arguments, or the file is no whole trace.";

/// The document for `--json`.
#[derive(Debug, Serialize)]
struct Document<'r> {
    holds: bool,
    lines: u64,
    promises: &'r [Kept],
    /// The first violations.
    violations: &'r [Violation],
    unknown_events: &'r std::collections::BTreeMap<String, u64>,
    /// The number of events that are missing after the last line.
    lost: u64,
}

/// The number of lines after which progress is shown again.
const OFTEN: u64 = 1 << 18;

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let mut reader = Reader::open(&arguments.trace)?;
    let standard = Some(output::Place::StandardOutput);
    let taken = [&arguments.chrome, &arguments.ftrace, &arguments.output.json];
    let taken = taken.into_iter().filter(|one| **one == standard).count();
    if taken > 1 {
        let what = "standard output takes one of --chrome, --ftrace and --json; give the others a file name";
        return Err(Failure::Input(what.to_owned()));
    }
    let json = output::prepare_json(&arguments.output)?;
    let mut export = Export::new(arguments.chrome.as_ref(), arguments.ftrace.as_ref())?;
    let late_max = arguments
        .late_max
        .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let checker = {
        let progress = Progress::new(&arguments.output);
        check::check(&mut reader, late_max, |line| {
            if line.number.is_multiple_of(OFTEN) {
                progress.show(&format!("{} lines", units::count(line.number)));
            }
            export.take(line)
        })?
    };
    let left_out = export.left_out;
    export.finish()?;
    let findings = &checker.findings;
    if let Some(json) = json {
        json.write_json(&Document {
            holds: findings.holds(),
            lines: reader.lines(),
            promises: findings.kept(),
            violations: &findings.violations,
            unknown_events: &findings.unknown,
            lost: checker.lost,
        })?;
    }
    let mut said = text(findings, reader.lines());
    if left_out > 0 {
        let events = units::counted(left_out, "event");
        said.push_str(&format!(
            "\n--ftrace left out {events} that the kernel does not have\n"
        ));
    }
    let lost = units::counted(checker.lost, "event");
    if checker.lost > 0 {
        said.push_str(&format!(
            "\nnot whole: {lost} behind the last line were lost when it was recorded\n"
        ));
    }
    if taken == 0 || arguments.output.json == standard {
        Screen::new(&arguments.output).print(&said)?;
    }
    if findings.holds() && checker.lost > 0 {
        let what = format!(
            "{}: the trace is not whole: {lost} behind its last line were lost, and what is there is good; give the \
             recording more room",
            arguments.trace.display()
        );
        return Err(Failure::Input(what));
    }
    Ok(CheckVerdict::from_passed(findings.holds()))
}

fn text(findings: &Findings, lines: u64) -> String {
    let mut out = format!("{}\n\n", units::counted(lines, "line"));
    let rows = findings.kept().iter().map(|one| {
        let said = match (one.checks, one.broken) {
            (0, _) => "nothing to check".to_owned(),
            (_, 0) => "kept".to_owned(),
            (_, times) => format!("broken {}", units::counted(times, "time")),
        };
        vec![one.promise.to_owned(), units::count(one.checks), said]
    });
    let aligns = [Align::Left, Align::Right, Align::Left];
    out.push_str(&table(&["promise", "checks", ""], &aligns, rows.collect()));
    for (name, count) in &findings.unknown {
        let times = units::counted(*count, "time");
        out.push_str(&format!(
            "\nunknown event {}, {times}: not looked at",
            shown::line(name)
        ));
    }
    if !findings.unknown.is_empty() {
        out.push('\n');
    }
    for one in &findings.violations {
        let cpu = one
            .cpu
            .map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
        out.push_str(&format!(
            "\nline {}, {} ns{cpu}: {}: {}",
            one.line,
            one.time,
            one.promise,
            shown::line(&one.what)
        ));
    }
    if !findings.violations.is_empty() {
        out.push('\n');
    }
    out
}
