//! `cargo laboratory -p tickless-bench`: the costs of this library's timers, compared with peers and with the lower
//! limit.
//!
//! Each group has one subject called `tickless` and other subjects for comparison. All subjects of a group are measured
//! in turn, round after round, so that a change of the machine's speed affects all of them. The results are the ratios,
//! computed round by round; the report has their median and spread.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

mod agreement;
mod groups;
mod harness;
mod host;
mod instructions;
mod limit;
mod machine;
mod threads;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use harness::{Group, Options, Row};

/// Measures the costs of timers: nanoseconds for an operation, and ratios, with the median and spread over interleaved
/// rounds.
///
/// A ratio is our figure divided by the subject's, so below 1 is better.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:\n  cargo laboratory -p tickless-bench\n  \
    cargo laboratory -p tickless-bench -- --only sleep --rounds 21\n  \
    cargo laboratory -p tickless-bench -- --json bench.json\n  \
    cargo laboratory -p tickless-bench -- --instructions\n  \
    cargo laboratory -p tickless-bench -- --agreement"
)]
struct Arguments {
    /// Measure only groups whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Number of rounds for each group; each round measures every subject once.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(3..=1001))]
    rounds: u32,
    /// Execute a hundredth of the operations, to see that everything runs; the figures are not for quotation.
    #[arg(long)]
    quick: bool,
    /// Write the rows as JSON to this file, or to standard output if it is "-".
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Print the names of the groups, and measure nothing.
    #[arg(long)]
    list: bool,
    /// Count the instructions of operations by valgrind, and measure nothing else; with --check, fail if an operation
    /// takes 3 % more than its figure in docs/performance.md.
    #[arg(long)]
    instructions: bool,
    /// Write the instructions into docs/performance.md.
    #[arg(long, requires = "instructions", conflicts_with = "check")]
    write: bool,
    /// Measure the distance of the library's clock and other clocks from the kernel's clock, over this number of
    /// seconds, and nothing else.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    agreement: Option<u64>,
    /// Compare the instructions with docs/performance.md.
    #[arg(long, requires = "instructions")]
    check: bool,
    #[arg(long, hide = true)]
    execute: Option<String>,
    #[arg(long, hide = true, default_value_t = 1)]
    batch: u64,
}

/// The document that `--json` prints.
#[derive(serde::Serialize)]
struct Report<'a> {
    machine: String,
    rows: &'a [Row],
    marks: &'a [Promise],
}

/// A promised figure, and its result.
#[derive(serde::Serialize)]
struct Promise {
    op: String,
    mark: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for (name, _) in groups::ALL {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(operation) = arguments.execute {
        instructions::execute(&operation, arguments.batch);
        return ExitCode::SUCCESS;
    }
    if let Some(seconds) = arguments.agreement {
        // A closed output wants no more.
        let _printed = agreement::print(seconds);
        return ExitCode::SUCCESS;
    }
    if arguments.instructions {
        return count(&arguments);
    }
    let wanted = |name: &str| {
        arguments.only.is_empty()
            || arguments
                .only
                .iter()
                .any(|text| name.contains(text.as_str()))
    };
    if !groups::ALL.iter().any(|(name, _)| wanted(name)) {
        let names: Vec<_> = groups::ALL.iter().map(|(name, _)| *name).collect();
        return refuse(&format!(
            "no group is called like that; there are: {}",
            names.join(", ")
        ));
    }
    let quiet = arguments.json.as_deref() == Some(Path::new("-"));
    let options = Options {
        rounds: arguments.rounds,
        quick: arguments.quick,
    };
    let mut rows = Vec::new();
    let mut marks = Vec::new();
    if !quiet {
        println!("{}", machine::describe());
    }
    for (name, measure) in groups::ALL.iter().filter(|(name, _)| wanted(name)) {
        measure(&options, &mut |group| {
            // The reader closed the output, and no file is left to write: measuring on would be of no use.
            if !quiet && print(name, &group).is_err() && arguments.json.is_none() {
                std::process::exit(0);
            }
            rows.extend(group.rows());
            marks.extend(group.marks().map(|mark| Promise {
                op: group.title(),
                mark,
            }));
        });
    }
    match arguments.json.map(|path| write(&path, &rows, &marks)) {
        Some(Err(error)) => refuse(&error),
        _ => ExitCode::SUCCESS,
    }
}

/// The page with the table of instructions.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance.md");

fn count(arguments: &Arguments) -> ExitCode {
    let page = Path::new(PAGE);
    let done = match (arguments.write, arguments.check) {
        (true, _) => instructions::write(page),
        (_, true) => instructions::check(page),
        _ => instructions::print(),
    };
    done.map_or_else(|error| refuse(&error), |()| ExitCode::SUCCESS)
}

#[expect(clippy::print_stderr, reason = "the one error message of a command")]
fn refuse(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::from(2)
}

/// Formats a ratio with at least two digits.
fn digits(ratio: f64) -> String {
    let places = if ratio < 0.095 { 3 } else { 2 };
    format!("{ratio:.places$}")
}

fn print(name: &str, group: &Group) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{name}: {}", group.title())?;
    writeln!(
        out,
        "  {:<44} {:>9} {:>19} {:>9} {:>15}",
        "subject", "median", "min to max", "ours / it", "min to max"
    )?;
    for row in group.rows() {
        let spread = format!("{:.1} to {:.1}", row.ns.min, row.ns.max);
        let [median, min, max] = [row.ratio.median, row.ratio.min, row.ratio.max].map(digits);
        let ratio = format!("{min} to {max}");
        writeln!(
            out,
            "  {:<44} {:>6.1} ns {spread:>19} {median:>8}x {ratio:>15}",
            row.subject, row.ns.median
        )?;
    }
    for mark in group.marks() {
        writeln!(out, "  {mark}")?;
    }
    out.flush()
}

fn write(path: &Path, rows: &[Row], marks: &[Promise]) -> Result<(), String> {
    let report = Report {
        machine: machine::describe(),
        rows,
        marks,
    };
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    if path == Path::new("-") {
        // A reader that went away has read enough.
        let _closed = writeln!(std::io::stdout(), "{text}");
        return Ok(());
    }
    // Whole or not at all.
    let unfinished = path.with_extension("part");
    std::fs::write(&unfinished, text)
        .and_then(|()| std::fs::rename(&unfinished, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}
