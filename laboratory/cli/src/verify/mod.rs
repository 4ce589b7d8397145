//! `tickless verify`: the check of a trace, in the project's own format or as the Linux kernel's tools print it.
//!
//! The rules are those of [`tickless_sim::promise::trace`]. They know only the contents of the trace, whichever program
//! wrote it.

mod export;
mod linux;
pub(crate) mod read;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tickless_sim::promise::trace::{Checker, Event, Findings, Head, Kept, Violation};

use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, Progress, Screen};
use crate::shown;
use crate::table::{Align, table};
use crate::units;
use export::Export;
use read::Reader;

/// Checks a trace: were the promises kept?
///
/// A trace is the output of `tickless sim run --trace` or of a program with the feature `tracepoints`; docs/trace.md
/// describes it. The text of the Linux kernel's timer events is one, too: `trace` and `trace_pipe` of tracefs, and what
/// `trace-cmd report` and `perf script` print. A trace is read once, from the beginning to the end. Memory grows only
/// with the number of timers that are queued at one time. A trace that is not whole is refused.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Lateness that a timer may have, instead of the trace's limit; 100 ms for a trace of Linux
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    late_max: Option<Duration>,

    /// Write the trace as Chrome's trace events, for Perfetto, to this file; `-` is standard output
    #[arg(long, value_name = "PATH")]
    chrome: Option<output::Place>,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim run my.toml --trace my.jsonl && tickless verify my.jsonl
  tickless sim run my.toml --trace - | tickless verify -
  tickless verify my.jsonl --late-max 12ms
  tickless verify my.jsonl --chrome my.json
  tickless verify my.jsonl --json - | jq '.violations[0]'
  sudo cat /sys/kernel/tracing/trace | tickless verify -

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
    /// The number of events that are missing, as far as the trace says so.
    lost: u64,
    /// The parts of the trace that are missing.
    missing: &'r [String],
}

/// The result of reading a trace.
struct Checked {
    findings: Findings,
    /// The number of events that are missing, as far as the trace says so.
    lost: u64,
    /// The parts of the trace that are missing, so that not all of it could be judged.
    missing: Vec<String>,
    /// What else the reader should know.
    notes: Vec<String>,
}

/// The number of lines after which progress is shown again.
const OFTEN: u64 = 1 << 18;

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let mut reader = Reader::open(&arguments.trace)?;
    let is_taken = arguments.chrome == Some(output::Place::StandardOutput);
    let trace = Some(output::Place::File(arguments.trace.clone()));
    let others = [("the trace", trace), ("--chrome", arguments.chrome.clone())];
    let json = output::prepare_json_beside(&others, &arguments.output)?;
    let mut export = arguments.chrome.as_ref().map(Export::new).transpose()?;
    let late_max = arguments
        .late_max
        .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let checked = {
        let progress = Progress::new(&arguments.output);
        let show = |lines: u64| {
            if lines.is_multiple_of(OFTEN) {
                progress.show(&format!("{} lines", units::count(lines)));
            }
        };
        if reader.first()? {
            check(&mut reader, late_max, |reader, head| {
                show(reader.lines());
                match &mut export {
                    Some(export) => export.take(reader.bytes(), head),
                    None => Ok(()),
                }
            })?
        } else if arguments.chrome.is_some() {
            let what = "--chrome writes a trace that `tickless` recorded in the format of others; this one is in such a \
                        format already";
            return Err(Failure::Input(what.to_owned()));
        } else {
            linux::check(&mut reader, late_max, show)?
        }
    };
    export.map_or(Ok(()), Export::finish)?;
    let findings = &checked.findings;
    if let Some(json) = json {
        json.write_json(&Document {
            holds: findings.holds(),
            lines: reader.lines(),
            promises: findings.kept(),
            violations: findings.violations(),
            unknown_events: &findings.unknown,
            lost: checked.lost,
            missing: &checked.missing,
        })?;
    }
    let mut said = text(findings, reader.lines());
    for note in &checked.notes {
        said.push_str(&format!("\n{note}\n"));
    }
    for what in &checked.missing {
        said.push_str(&format!("\nnot whole: {}\n", shown::line(what)));
    }
    if !is_taken {
        Screen::new(&arguments.output).print(&said)?;
    }
    if findings.holds() && !checked.missing.is_empty() {
        let what = format!(
            "{}: the trace is not whole, and nothing in it is certainly wrong: {}",
            arguments.trace.display(),
            checked.missing.join("; ")
        );
        return Err(Failure::Input(what));
    }
    Ok(CheckVerdict::from_passed(findings.holds()))
}

/// Checks a trace in the project's own format, whose first line the reader has read. `each` is called after each event.
fn check(
    reader: &mut Reader,
    late_max: Option<u64>,
    mut each: impl FnMut(&Reader, &Head) -> Result<(), Failure>,
) -> Result<Checked, Failure> {
    let checker = Checker::new(reader.header()?, late_max);
    let mut checker = checker.map_err(|what| reader.wrong(&what))?;
    while reader.next()? {
        let (head, event) = reader.event()?;
        let taken = checker.take(reader.lines(), &head, &event);
        taken.map_err(|what| reader.wrong(&what))?;
        if let Event::End {
            lines,
            digest,
            lost,
            ..
        } = event
        {
            reader.end(lines, digest.as_deref())?;
            let events = units::counted(lost, "event");
            let missing = format!(
                "{events} after the last line were lost when it was recorded; give the recording more room"
            );
            return Ok(Checked {
                findings: checker.into_findings(),
                lost,
                missing: if lost > 0 { vec![missing] } else { Vec::new() },
                notes: Vec::new(),
            });
        }
        each(reader, &head)?;
    }
    Err(reader.truncated())
}

fn text(findings: &Findings, lines: u64) -> String {
    let mut out = format!("{}\n\n", units::counted(lines, "line"));
    let rows = findings.kept().iter().map(|one| {
        let said = match (one.checks, one.broken, one.unsure) {
            (0, ..) => "nothing to check".to_owned(),
            (_, 0, 0) => "kept".to_owned(),
            (_, 0, times) => format!("unsure {}", units::counted(times, "time")),
            (_, times, _) => format!("broken {}", units::counted(times, "time")),
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
    for one in findings.violations() {
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
    if !findings.violations().is_empty() {
        out.push('\n');
    }
    out
}
