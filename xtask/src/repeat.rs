//! The repeated runs of the tests, with more tests at a time than processors, which find a test that fails once in a
//! thousand runs.
//!
//! The timing of threads and clocks differs between machines. A test that fails now and then on another machine is
//! found here first: the programs are executed in parallel, so that their threads lose the processor at every possible
//! place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::invocation::{Invocation, first_cpu};

/// The directory that keeps the output of failed programs, relative to the root.
const KEPT: &str = "target/repeat";
/// The packages whose tests depend on the timing of threads and clocks. The tests of all other packages are functions
/// of their seeds.
const PACKAGES: [&str; 3] = ["tickless", "tickless-link", "tickless-core"];

/// Runs the tests over and over, several at a time, until time is over: for failures that come now and then.
///
/// The tests are built as the step `test-release` of the check builds them, with all features. The output of each
/// failed run is kept below `target/repeat`. Exits with 1 if a run failed.
///
/// Twenty rounds of the library's and the command's tests with little of a CPU take some hours, and on one CPU an hour:
/// `--under load --rounds 20 -p tickless -p tickless-cli`, and `--under one-cpu` with the same options.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The length of the run in minutes, building not counted.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// The number of rounds of all programs, instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "minutes",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rounds: Option<u64>,
    /// The disturbance under which the programs run.
    #[arg(long, value_enum)]
    under: Option<Under>,
    /// Builds the library with a clock whose error is 1 ms. A test that takes the clock for exact then fails in most
    /// runs, and not only where 200 ns decide. Built below `target/wide-clock`.
    #[arg(long)]
    wide_clock: bool,
    /// The number of programs at a time [default: two for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The package whose tests are run; may be given several times [default: the packages whose tests depend on timing]
    #[arg(short, long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// Runs only tests whose names contain this text.
    #[arg(value_name = "TEST")]
    filter: Option<String>,
}

/// A disturbance that makes programs late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Under {
    /// The scheduler's idle class (`chrt -i 0`), together with three loops of the ordinary class, which leaves a few
    /// percent of a CPU.
    Load,
    /// One processor for all threads (`taskset -c`).
    OneCpu,
}

impl Under {
    /// Returns the command that starts a program under this disturbance, and its options.
    fn launcher(self) -> (&'static str, [String; 2]) {
        match self {
            Self::Load => ("chrt", ["-i".into(), "0".into()]),
            Self::OneCpu => ("taskset", ["-c".into(), first_cpu()]),
        }
    }

    /// Returns the number of busy loops that run in parallel with the programs.
    const fn loops(self) -> usize {
        match self {
            Self::Load => 3,
            Self::OneCpu => 0,
        }
    }

    /// Returns the reason why the system cannot start programs under this disturbance; `None` if it can.
    fn obstacle(self) -> Option<String> {
        let (program, arguments) = self.launcher();
        let tried = Command::new(program).args(arguments).arg("true").output();
        match tried {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(format!("{program}: {error}")),
        }
    }
}

/// The number of seconds after which a test counts as hung that gets a few percent of a CPU.
const PATIENCE: &str = "1200";

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    name: String,
    path: PathBuf,
    /// The directory in which cargo would run the program.
    directory: PathBuf,
}

/// The results of the runs so far.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    /// The tests that failed, with their programs, and the number of failures of each.
    failures: BTreeMap<String, usize>,
}

/// Runs `cargo xtask repeat`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let filter = arguments.filter.as_deref();
    let mut programs = build(root, &arguments.packages, arguments.wide_clock)?;
    programs.retain(|program| has_tests(program, filter));
    if programs.is_empty() {
        return Err(format!(
            "nothing to run: these packages have no tests{}",
            filter.map_or_else(String::new, |name| format!(" whose names contain `{name}`"))
        ));
    }
    let kept = root.join(KEPT);
    fs::create_dir_all(&kept).map_err(|error| format!("{}: {error}", kept.display()))?;
    let jobs = arguments
        .jobs
        .map_or_else(jobs_of_this_machine, usize::from);
    if let Some(under) = arguments.under
        && let Some(why) = under.obstacle()
    {
        println!(
            "skipped: {} programs under {under:?}, because {why}",
            programs.len()
        );
        return Ok(());
    }
    let extent = arguments.rounds.map_or_else(
        || format!("for {} minutes", arguments.minutes),
        |rounds| format!("{rounds} rounds"),
    );
    println!("{} programs, {jobs} at a time, {extent}", programs.len());
    let turns = arguments.rounds.map_or(usize::MAX, |rounds| {
        programs.len() * usize::try_from(rounds).unwrap_or(usize::MAX)
    });
    let until = arguments
        .rounds
        .is_none()
        .then(|| Instant::now() + Duration::from_secs(60 * arguments.minutes));
    let (tally, turn) = (Mutex::new(Tally::default()), AtomicUsize::new(0));
    let work = || {
        while until.is_none_or(|until| Instant::now() < until) {
            // Relaxed: it only hands out numbers.
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            if turn >= turns {
                return;
            }
            let program = &programs[turn % programs.len()];
            let failed = execute(program, filter, arguments.under, &kept, turn);
            let mut tally = tally
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            tally.note(program, failed);
        }
    };
    beside_loops(arguments.under.map_or(0, Under::loops), || {
        thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    });
    let tally = tally
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    tally.judge(programs.len())
}

/// Runs `work` while `loops` threads compute.
fn beside_loops(loops: usize, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..loops {
            // Relaxed: nothing goes with it.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        work();
        is_over.store(true, Ordering::Relaxed);
    });
}

fn jobs_of_this_machine() -> usize {
    2 * thread::available_parallelism().map_or(1, usize::from)
}

/// Builds the test programs of `packages`. If none is named, builds those of the packages whose tests depend on timing.
fn build(root: &Path, packages: &[String], wide_clock: bool) -> Result<Vec<Program>, String> {
    let line = Invocation::cargo(&["test", "--all-features", "--profile", "testrelease"])
        .args(&["--tests", "--no-run"]);
    let line = if packages.is_empty() {
        line.packages(&PACKAGES)
    } else {
        line.packages(packages)
    };
    let line = if wide_clock {
        line.args(&["--target-dir", "target/wide-clock"])
            .variable("RUSTFLAGS", "--cfg wide_clock")
    } else {
        line
    };
    println!("   $ {line}");
    line.run(root)?;
    let said = line.arg("--message-format=json").capture(root)?;
    Ok(said.stdout.lines().filter_map(program).collect())
}

/// Returns the test program that a line of cargo's output names.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    let is_test = message["profile"]["test"].as_bool()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    is_test.then_some(Program {
        name: message["target"]["name"].as_str()?.to_owned(),
        path,
        directory: manifest.parent()?.to_owned(),
    })
}

/// Returns true if `program` has tests with `filter` in their names, or cannot list its tests.
fn has_tests(program: &Program, filter: Option<&str>) -> bool {
    let listed = Command::new(&program.path)
        .arg("--list")
        .args(filter)
        .current_dir(&program.directory)
        .stdin(Stdio::null())
        .output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    listed.map_or(true, |list| {
        list.lines().any(|line| line.ends_with(": test"))
    })
}

/// Executes `program`, and returns its failures.
fn execute(
    program: &Program,
    filter: Option<&str>,
    under: Option<Under>,
    kept: &Path,
    turn: usize,
) -> Option<Vec<String>> {
    let mut command = command(program, under);
    let output = command
        .args(filter)
        .current_dir(&program.directory)
        .stdin(Stdio::null())
        .output();
    let text = match output {
        Ok(output) if output.status.success() => return None,
        Ok(output) => format!(
            "{}{}\n{}\n",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            output.status
        ),
        Err(error) => format!("cannot start {}: {error}\n", program.path.display()),
    };
    let file = kept.join(format!("{}-{turn}.txt", program.name));
    let tests = failed(&text);
    match fs::write(&file, &text) {
        Ok(()) => println!("FAILED: {} {tests:?}: {}", program.name, file.display()),
        // The output is all there is to go by, so it is shown instead.
        Err(error) => println!(
            "FAILED: {}; {}: {error}\n{text}",
            program.name,
            file.display()
        ),
    }
    Some(tests)
}

fn command(program: &Program, under: Option<Under>) -> Command {
    let Some(under) = under else {
        return Command::new(&program.path);
    };
    let (launcher, arguments) = under.launcher();
    let mut command = Command::new(launcher);
    command.args(arguments).arg(&program.path);
    command.env("TICKLESS_PATIENCE", PATIENCE);
    command
}

/// Returns the tests that failed according to the output of their program.
fn failed(output: &str) -> Vec<String> {
    let name = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.to_owned())
    };
    output.lines().filter_map(name).collect()
}

impl Tally {
    fn note(&mut self, program: &Program, failed: Option<Vec<String>>) {
        self.runs += 1;
        let Some(mut tests) = failed else {
            return;
        };
        if tests.is_empty() {
            // It did not get to the end of any.
            tests.push("the program itself".to_owned());
        }
        for test in tests {
            let whose = format!("{}: {test}", program.name);
            *self.failures.entry(whose).or_default() += 1;
        }
    }

    fn judge(self, programs: usize) -> Result<(), String> {
        // As many rounds as the program had that had least.
        let rounds = self.runs / programs;
        if rounds == 0 {
            return Err(format!(
                "{} of {programs} programs ran; use more --minutes",
                self.runs
            ));
        }
        if self.failures.is_empty() {
            println!("{rounds} rounds of {programs} programs, none failed");
            return Ok(());
        }
        let lines: Vec<_> = self
            .failures
            .iter()
            .map(|(test, times)| format!("   {times} times: {test}"))
            .collect();
        Err(format!(
            "in {rounds} rounds failed, with their output in {KEPT}:\n{}",
            lines.join("\n")
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Program, Tally, Under, beside_loops, command, failed, program};

    fn sample() -> Program {
        Program {
            name: "time".into(),
            path: PathBuf::from("/target/time-1"),
            directory: PathBuf::from("/crates/one"),
        }
    }

    #[test]
    fn programs_are_read_from_what_cargo_says() {
        let test = r#"{"reason":"compiler-artifact","manifest_path":"/crates/one/Cargo.toml",
            "target":{"name":"time"},"profile":{"test":true},"executable":"/target/time-1"}"#;
        assert_eq!(program(test), Some(sample()));
        let tool = test.replace("true", "false");
        assert_eq!(program(&tool), None);
        let library = test.replace("\"/target/time-1\"", "null");
        assert_eq!(program(&library), None);
        assert_eq!(program("   Compiling one"), None);
    }

    #[test]
    fn programs_are_started_as_they_are_to_suffer() {
        let shown = |under| format!("{:?}", command(&sample(), under));
        assert_eq!(shown(None), r#""/target/time-1""#);
        let load = shown(Some(Under::Load));
        assert!(
            load.ends_with(r#""chrt" "-i" "0" "/target/time-1""#),
            "{load}"
        );
        assert!(load.contains("TICKLESS_PATIENCE"), "{load}");
        let one = shown(Some(Under::OneCpu));
        assert!(one.contains(r#""taskset" "-c" ""#), "{one}");
        assert!(one.ends_with(r#"" "/target/time-1""#), "{one}");
    }

    #[test]
    fn loops_end_with_the_work() {
        let mut worked = false;
        beside_loops(2, || worked = true);
        assert!(worked);
    }

    #[test]
    fn what_failed_is_named() {
        let output = "test a ... ok\ntest b::c ... FAILED\ntest d ... ignored\n";
        assert_eq!(failed(output), ["b::c"]);
    }

    #[test]
    fn failures_are_counted_by_their_tests() {
        let mut tally = Tally::default();
        tally.note(&sample(), None);
        assert_eq!(tally.runs, 1);
        tally.note(&sample(), Some(vec!["a".into()]));
        tally.note(&sample(), Some(vec!["a".into()]));
        tally.note(&sample(), Some(Vec::new()));
        let told = tally.judge(2).unwrap_err();
        assert!(told.starts_with("in 2 rounds failed"), "{told}");
        assert!(told.contains("2 times: time: a"), "{told}");
        assert!(told.contains("1 times: time: the program itself"), "{told}");
    }

    #[test]
    fn what_did_not_run_has_not_passed() {
        let mut tally = Tally::default();
        tally.note(&sample(), None);
        let told = tally.judge(2).unwrap_err();
        assert!(told.contains("1 of 2 programs"), "{told}");
    }
}
