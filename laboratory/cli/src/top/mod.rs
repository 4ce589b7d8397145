//! `tickless top`: which tasks and functions the kernel's timers serve, how late, and which interrupts they cause.

mod tally;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::failure::{CheckVerdict, Failure};
use crate::instance::{Recording, Step};
use crate::output::{self, Place, Screen};
use crate::table::{Align, table};
use crate::units;
use crate::verify::read::Reader;
use tally::{Row, Tally};

/// The timers of this machine's Linux kernel: who starts them, how late they fire, and which interrupts they cause.
///
/// Counts are per second. A task is the one that started the timer; an exact timer is late by the time from the deadline
/// that was asked for, without its slack, a timer of the wheel by ticks. `irq` counts the timer interrupts whose first
/// callback it was, `idle` those of them that found the CPU idle, `wake` the tasks that the callbacks woke, `remote` the
/// expiries on another CPU. `?` is a task that the trace does not name. With CMD the rows are those of its tasks, and the
/// interrupts of a CPU are those of all. Recording takes root, reading a trace does not.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Count what this trace has, as `tickless record` writes it; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["length", "command", "interval"])]
    trace: Option<PathBuf>,

    /// Show the table each time this has passed [default: 2s, or once if the end is known]
    #[arg(long, value_name = "TIME", value_parser = units::duration_or_seconds, conflicts_with = "json")]
    interval: Option<Duration>,

    /// Compute how many interrupts it would save to let each timer of a program be so late
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    slack: Option<Duration>,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,

    #[command(flatten)]
    what: Recording,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless top
  tickless top -- sleep 1
  tickless top --for 5 --slack 1ms
  tickless top --trace timers.txt --json - | jq '.rows[0]'

Exit codes: 0 counted, 1 counted, and CMD failed, 2 bad arguments, or no trace, 3 no tracefs, or no right to use it.";

/// The time between two tables if no end is known.
const OFTEN: Duration = Duration::from_secs(2);
/// The sequence that empties a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let trace = ("--trace", arguments.trace.clone().map(Place::File));
    let json = output::prepare_json_beside(&[trace], &arguments.output)?;
    let screen = Screen::new(&arguments.output);
    let slack = arguments
        .slack
        .map(|slack| i64::try_from(slack.as_nanos()).unwrap_or(i64::MAX));
    let mut tally = Tally::new(slack);
    let mut failed = None;
    let mut interval = arguments.interval;
    if let Some(trace) = &arguments.trace {
        read(&mut Reader::open(trace)?, &mut tally)?;
    } else {
        let what = &arguments.what;
        let is_endless = what.length.is_none() && what.command.is_empty() && json.is_none();
        interval = interval.or(is_endless.then_some(OFTEN));
        let every = interval.unwrap_or(Duration::MAX).as_secs_f64();
        let is_live = std::io::stdout().is_terminal();
        let recorded = what.record(
            arguments.output.json == Some(Place::StandardOutput),
            |step| {
                match step {
                    Step::Began(process) => tally.only(process),
                    Step::Line(line) => tally.take(&String::from_utf8_lossy(line)),
                    Step::Pause => {
                        if tally.seconds() >= every {
                            if is_live {
                                screen.print_obeyed(CLEAR)?;
                            }
                            screen.print(&text(&mut tally, arguments))?;
                            tally.restart();
                        }
                        return Ok(output::is_read());
                    }
                }
                Ok(true)
            },
        )?;
        failed = recorded.status.filter(|status| !status.success());
    }
    if let Some(json) = json {
        json.write_json(&document(&mut tally, slack))?;
    }
    if interval.is_none() || tally.events > 0 {
        screen.print(&text(&mut tally, arguments))?;
    }
    if let Some(status) = failed {
        screen.print(&format!("the command failed: {status}\n"))?;
    }
    Ok(CheckVerdict::from_passed(failed.is_none()))
}

/// Reads a whole trace.
fn read(reader: &mut Reader, tally: &mut Tally) -> Result<(), Failure> {
    if reader.first()? {
        reader.header()?;
        return Err(reader.wrong("top reads traces of Linux; `tickless verify` reads this one"));
    }
    loop {
        tally.take(&String::from_utf8_lossy(reader.bytes()));
        match reader.next() {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) if reader.is_cut() => break,
            Err(failure) => return Err(failure),
        }
    }
    if tally.events == 0 {
        return Err(reader.no_events());
    }
    Ok(())
}

/// Returns the table and what stands around it.
fn text(tally: &mut Tally, arguments: &Arguments) -> String {
    let seconds = tally.seconds().max(1e-9);
    let rate = |count: u64| match count {
        0 => "0".to_owned(),
        count => units::digits(count as f64 / seconds),
    };
    let mut out = format!(
        "{} s, {}, {} lost\n",
        units::digits(seconds),
        units::counted(tally.events, "event"),
        units::count(tally.lost)
    );
    let mut empty = 0;
    for (cpu, interrupts, without) in tally.interrupts() {
        out.push_str(&format!(
            "CPU {cpu}: {} timer interrupts/s  ",
            rate(interrupts)
        ));
        empty += without;
    }
    out.push_str(&format!("without an exact timer: {}/s\n\n", rate(empty)));
    let rows = tally.rows();
    let shown = rows.iter().take(arguments.rows).map(|row| {
        let quantile = |of: &Histogram<u64>, share| match (of.len(), row.is_coarse) {
            (0, _) => String::new(),
            (_, true) => units::count(of.value_at_quantile(share)),
            (_, false) if of.max() == 0 => "0".to_owned(),
            (_, false) => units::nanos(of.value_at_quantile(share) as f64),
        };
        let mut cells = vec![row.task.clone(), row.function.clone()];
        cells.extend([row.starts, row.rearms, row.cancels, row.expiries].map(rate));
        cells.extend([0.5, 0.99, 1.0].map(|share| quantile(&row.late, share)));
        cells.push(quantile(&row.slack, 0.5));
        cells.extend([row.interrupts, row.from_idle, row.wakes, row.remote].map(rate));
        cells
    });
    let head = [
        "task", "function", "start/s", "rearm/s", "cancel/s", "fire/s", "late p50", "p99", "max",
        "slack", "irq/s", "idle/s", "wake/s", "remote/s",
    ];
    out.push_str(&table(&head, &[Align::Left; 2], shown.collect()));
    if rows.len() > arguments.rows {
        let more = units::counted((rows.len() - arguments.rows) as u64, "row");
        out.push_str(&format!("and {more} more; see --rows\n"));
    }
    for ((by, of), count) in &tally.served {
        let timers = units::counted(*count, "timer");
        out.push_str(&format!("CPU {by} ran {timers} of CPU {of}\n"));
    }
    if tally.unstarted > 0 {
        let timers = units::counted(tally.unstarted, "timer");
        out.push_str(&format!(
            "{timers} fired whose start the trace does not show: it was before, or by a task that the recorder does not see\n",
        ));
    }
    let saved = tally.points().zip(arguments.slack);
    if let Some(((asked, with), slack)) = saved {
        out.push_str(&format!(
            "with a slack of {} for programs: {} timer interrupts/s in place of {}; computed from the deadlines of the \
             exact timers that fired, as if nothing else changed\n",
            units::time(slack),
            rate(with),
            rate(asked)
        ));
    }
    out.push('\n');
    out
}

fn document(tally: &mut Tally, slack: Option<i64>) -> Value {
    let rows: Vec<_> = tally.rows().into_iter().map(row).collect();
    let interrupts = tally
        .interrupts()
        .map(|(cpu, count, _)| (cpu.to_string(), count.into()));
    let interrupts: serde_json::Map<_, Value> = interrupts.collect();
    let served = tally
        .served
        .iter()
        .map(|((by, of), count)| json!({"by": by, "of": of, "count": count}));
    let served: Vec<_> = served.collect();
    let mut document = json!({
        "seconds": tally.seconds(), "events": tally.events, "lost": tally.lost, "unstarted": tally.unstarted,
        "interrupts": interrupts, "rows": rows, "served": served,
    });
    if let Some((asked, with)) = tally.points() {
        document["computed"] = json!({"slack_ns": slack, "interrupts": asked, "with_slack": with});
    }
    document
}

fn row(row: &Row) -> Value {
    let late = |share| row.late.value_at_quantile(share);
    let late = json!({"p50": late(0.5), "p99": late(0.99), "max": row.late.max()});
    let name = if row.is_coarse {
        "late_ticks"
    } else {
        "late_ns"
    };
    let mut row = json!({
        "task": row.task, "function": row.function, "starts": row.starts, "rearms": row.rearms,
        "cancels": row.cancels, "expiries": row.expiries, "interrupts": row.interrupts, "from_idle": row.from_idle,
        "wakes": row.wakes, "remote": row.remote, "slack_ns": row.slack.value_at_quantile(0.5),
    });
    row[name] = late;
    row
}
