//! `tickless demo`: timeouts of a real server under load, with this library's timers and with tokio's.

mod arguments;
mod clients;
mod noting;
mod paced;
mod rearm;
mod report;
mod result;
mod rounds;
mod server;
mod subject;
mod table;
mod tally;
mod threads;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use arguments::Arguments;
use arguments::Settings;
use report::UNOPTIMISED;
use result::Outcome;
use rounds::Run;

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, OutFile, Progress, Screen};
use crate::units;

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let settings = arguments.settle()?;
    let page = settings.report.as_ref().map(OutFile::prepare).transpose()?;
    let report = ("--report", settings.report.clone());
    let json = output::prepare_json_beside(&[report], &arguments.output)?;
    allow_descriptors(&settings)?;
    let screen = Screen::new(&arguments.output);
    let interrupt = Interrupt::catch()?;
    let outcome = {
        let progress = Progress::new(&arguments.output);
        let mut run = Run::prepare(&settings, &interrupt, &progress)?;
        run.all()?;
        let (took, interrupted) = (run.elapsed(), interrupt.is_requested());
        Outcome::new(settings.clone(), run.totals, took, interrupted)
    };

    // The page before the table: a reader that closes standard output early has it nevertheless.
    if let Some(page) = page {
        page.write(report::page(&outcome)?.as_bytes())?;
    }
    if let Some(json) = json {
        json.write_json(&outcome)?;
    }
    let mut text = short(&outcome);
    if let Some(output::Place::File(path)) = &outcome.settings.report {
        text.push_str(&format!("Report: {}\n", path.display()));
    }
    screen.print(&text)?;
    Ok(CheckVerdict::from_passed(outcome.holds))
}

/// Formats the end of the output: 15 lines of 80 columns at most, not counting checks that failed. A column for tokio's
/// alternative timer makes them wider.
fn short(outcome: &Outcome) -> String {
    let mut text = extent(outcome);
    text.push('\n');
    text.push_str(&table::short(&outcome.totals));
    text.push_str(if cfg!(debug_assertions) {
        UNOPTIMISED
    } else {
        SHORT_NOTE
    });
    text.push('\n');
    text.push_str(&table::short_checks(&outcome.checks));
    if cfg!(not(tokio_unstable)) {
        text.push_str(ANOTHER);
    }
    text
}

/// Describes the size of a run and its duration.
fn extent(outcome: &Outcome) -> String {
    let settings = &outcome.settings;
    format!(
        "{}, {} a second, {} in {:.1} s{}",
        units::counted(settings.connections.into(), "connection"),
        units::counted(settings.requests_per_second.into(), "request"),
        units::counted(settings.rounds.into(), "round"),
        outcome.took_s,
        if outcome.interrupted {
            ", ended early"
        } else {
            ""
        },
    )
}

/// The last line of the short table of an optimised build.
const SHORT_NOTE: &str = "Behind a figure: its ratio to tokio's, below 1 is better.";

/// The way to the column that a default build lacks.
const ANOTHER: &str =
    "Not built: tokio's alternative timer (RUSTFLAGS=\"--cfg tokio_unstable\").\n";

/// File descriptors that a run needs in addition to the two of each connection.
const DESCRIPTORS: u64 = 64;

/// Raises the limit of file descriptors as far as this run needs and this user may.
fn allow_descriptors(settings: &Settings) -> Result<(), Failure> {
    let needed = 2 * u64::from(settings.connections) + DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum.map(|maximum| maximum.max(needed)),
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| {
        let allowed = limit.maximum.unwrap_or(needed);
        Failure::Machine(format!(
            "{} connections need {} file descriptors, and this user may have {}; use --connections {} or raise the \
             limit (ulimit -n)",
            units::count(settings.connections.into()),
            units::count(needed),
            units::count(allowed),
            allowed.saturating_sub(DESCRIPTORS) / 2
        ))
    })
}
