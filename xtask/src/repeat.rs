//! The repeated runs of the tests, with more programs at a time than processors.
//!
//! The timing of threads and clocks differs between machines. A test that fails now and then on another machine is
//! found here first: the programs are executed in parallel, so that their threads lose the processor at every possible
//! place.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::invocation::{Invocation, usable_cpu};
use crate::workspace::Program;

/// The directory that keeps the output of failed programs, relative to the root.
const KEPT: &str = "target/repeat";
/// The packages whose tests depend on the timing of threads and clocks. The tests of all other packages are functions
/// of their seeds.
const PACKAGES: [&str; 3] = ["tickless", "tickless-link", "tickless-core"];
/// The number of seconds after which a test counts as hung that gets a few percent of a CPU.
const PATIENCE: &str = "1200";

/// Runs the tests over and over, several at a time, for failures that come now and then.
///
/// The tests are built as the step `test-release` of the check builds them, with all features. The output of each
/// failed run is kept below `target/repeat`. Exits with 1 if a run failed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The length of the run in minutes, building not counted.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// The disturbance under which the programs run.
    #[arg(long, value_enum)]
    under: Option<Under>,
    /// Builds the library with a clock whose error is 1 ms. A test that takes the clock for exact then fails in most
    /// runs, and not only where 200 ns decide. Built below `target/wide-clock`.
    #[arg(long)]
    wide_clock: bool,
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
    /// Returns the command that starts a program under this disturbance.
    fn launcher(self) -> [String; 3] {
        match self {
            Self::Load => ["chrt".into(), "-i".into(), "0".into()],
            Self::OneCpu => ["taskset".into(), "-c".into(), usable_cpu(0)],
        }
    }
}

pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let filter = arguments.filter.as_deref();
    let mut programs = build(root, arguments.wide_clock)?;
    programs.retain(|program| has_tests(program, filter));
    if programs.is_empty() {
        return Err("nothing to run: these packages have no tests of that name".to_owned());
    }
    let kept = root.join(KEPT);
    fs::create_dir_all(&kept).map_err(|error| format!("{}: {error}", kept.display()))?;
    let launcher = arguments.under.map(Under::launcher);
    if let Some([program, options @ ..]) = &launcher {
        let tried = Command::new(program).args(options).arg("true").output();
        if !tried.is_ok_and(|output| output.status.success()) {
            println!(
                "skipped: {} programs, because `{program}` cannot start them",
                programs.len()
            );
            return Ok(());
        }
    }
    let jobs = 2 * thread::available_parallelism().map_or(1, usize::from);
    println!("{} programs, {jobs} at a time", programs.len());
    let until = Instant::now() + Duration::from_secs(60 * arguments.minutes);
    // The number of runs, and of the failures of each test.
    let tally = Mutex::new((0, BTreeMap::<String, usize>::new()));
    let turn = AtomicUsize::new(0);
    let work = || {
        while Instant::now() < until {
            // Relaxed: it only hands out numbers.
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            let program = &programs[turn % programs.len()];
            let failed = execute(program, filter, launcher.as_ref(), &kept, turn);
            let mut tally = tally.lock().expect("no run panics");
            tally.0 += 1;
            for test in failed {
                *tally.1.entry(test).or_default() += 1;
            }
        }
    };
    let is_over = AtomicBool::new(false);
    let compute = || {
        // Relaxed: nothing goes with it.
        while !is_over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let loops = if arguments.under == Some(Under::Load) {
        3
    } else {
        0
    };
    thread::scope(|scope| {
        (0..loops).for_each(|_| drop(scope.spawn(compute)));
        thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
        is_over.store(true, Ordering::Relaxed);
    });
    let (runs, failures) = tally.into_inner().expect("no run panics");
    judge(runs, programs.len(), &failures)
}

fn judge(runs: usize, programs: usize, failures: &BTreeMap<String, usize>) -> Result<(), String> {
    // As many rounds as the program had that had least.
    let rounds = runs / programs;
    if rounds == 0 {
        return Err(format!(
            "{runs} of {programs} programs ran; use more --minutes"
        ));
    }
    if failures.is_empty() {
        println!("{rounds} rounds of {programs} programs, none failed");
        return Ok(());
    }
    let lines = failures
        .iter()
        .map(|(test, times)| format!("\n   {times} times: {test}"));
    let lines: String = lines.collect();
    Err(format!(
        "in {rounds} rounds failed, with their output in {KEPT}:{lines}"
    ))
}

/// Builds the test programs of the packages whose tests depend on timing.
fn build(root: &Path, wide_clock: bool) -> Result<Vec<Program>, String> {
    let line = Invocation::cargo(&["test", "--all-features", "--profile", "testrelease"])
        .args(&["--tests", "--no-run"])
        .packages(&PACKAGES);
    let line = if wide_clock {
        line.args(&["--target-dir", "target/wide-clock"])
            .variable("RUSTFLAGS", "--cfg wide_clock")
    } else {
        line
    };
    println!("   $ {line}");
    line.run(root)?;
    let said = line.arg("--message-format=json").capture(root)?;
    Ok(said.stdout.lines().filter_map(Program::of).collect())
}

/// Returns true if `program` has tests with `filter` in their names, or cannot list its tests.
fn has_tests(program: &Program, filter: Option<&str>) -> bool {
    let mut list = Command::new(&program.executable);
    list.arg("--list")
        .args(filter)
        .current_dir(&program.directory)
        .stdin(Stdio::null());
    let listed = list
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    listed.map_or(true, |list| {
        list.lines().any(|line| line.ends_with(": test"))
    })
}

fn execute(
    program: &Program,
    filter: Option<&str>,
    launcher: Option<&[String; 3]>,
    kept: &Path,
    turn: usize,
) -> Vec<String> {
    let mut command = Command::new(&program.executable);
    if let Some([launcher, options @ ..]) = launcher {
        command = Command::new(launcher);
        command
            .args(options)
            .arg(&program.executable)
            .env("TICKLESS_PATIENCE", PATIENCE);
    }
    command
        .args(filter)
        .current_dir(&program.directory)
        .stdin(Stdio::null());
    let text = match command.output() {
        Ok(output) if output.status.success() => return Vec::new(),
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            format!("{}\n{}\n", String::from_utf8_lossy(&said), output.status)
        }
        Err(error) => format!("cannot start {}: {error}\n", program.executable.display()),
    };
    let file = kept.join(format!("{}-{turn}.txt", program.name));
    let tests = failed(&program.name, &text);
    match fs::write(&file, &text) {
        Ok(()) => println!("FAILED: {tests:?}: {}", file.display()),
        // The output is all there is to go by, so it is shown instead.
        Err(error) => println!("FAILED: {tests:?}; {}: {error}\n{text}", file.display()),
    }
    tests
}

/// Returns the tests that failed according to the output of their program.
fn failed(program: &str, output: &str) -> Vec<String> {
    let name = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(format!("{program}: {name}"))
    };
    let tests: Vec<String> = output.lines().filter_map(name).collect();
    // It did not get to the end of any.
    if tests.is_empty() {
        vec![format!("{program}: the program itself")]
    } else {
        tests
    }
}

#[cfg(test)]
mod tests {
    use super::{failed, judge};

    #[test]
    fn what_failed_is_named_and_counted() {
        let output = "test a ... ok\ntest b::c ... FAILED\ntest d ... ignored\n";
        assert_eq!(failed("time", output), ["time: b::c"]);
        assert_eq!(
            failed("time", "Segmentation fault"),
            ["time: the program itself"]
        );
        let told = judge(4, 2, &[("time: a".to_owned(), 2)].into()).unwrap_err();
        assert!(
            told.starts_with("in 2 rounds failed") && told.ends_with("2 times: time: a"),
            "{told}"
        );
        assert!(
            judge(1, 2, &[].into()).is_err(),
            "what did not run has not passed"
        );
    }
}
