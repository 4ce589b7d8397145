//! The soak: random schedules of random programs, for as long as the user wants to wait.
//!
//! The cases are the tests in files called `fuzz.rs` of the libraries. They are built under `--cfg shuttle`. The
//! variable `TICKLESS_FUZZ_SCHEDULES` sets the number of schedules that each case draws, and `TICKLESS_FUZZ_SEED` the
//! first seed. Each case prints a line that says what it did. The task adds up these lines and compares the sum with
//! the requested number, because a case that is never compiled would not be noticed.

use std::path::Path;
use std::time::Instant;

use clap::Args;

use crate::files;
use crate::invocation::Invocation;
use crate::tidy::scan::Scan;
use crate::workspace::Workspace;

/// The file that holds the cases of a module.
const FILE: &str = "/fuzz.rs";
/// The largest number of schedules: it is more than a user waits for, and small enough that the largest seed is still a
/// number of 64 bits.
const MANY: u64 = 1 << 40;

/// Runs random schedules of the protocols until one breaks a rule, or all are done.
///
/// Schedule k of a case is a function of the sum of seed and k: the same seed gives the same schedules, and a failure
/// prints the command that runs its schedule alone. To see other schedules than last time, give another seed, which
/// differs from the last by more than the number of schedules. Exits with 1 if a rule was broken.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of schedules of all cases together; each case gets the same share, rounded up.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=MANY))]
    schedules: u64,
    /// The seed of the first schedule of each case.
    #[arg(long, value_name = "SEED", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(..=u64::MAX - MANY))]
    seed: u64,
    /// Runs only this case; all when none is given.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Shows the cases, and runs nothing.
    #[arg(long)]
    list: bool,
}

/// The cases of one package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cases {
    package: String,
    names: Vec<String>,
}

/// The number and the seeds of the schedules of each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) schedules: u64,
    pub(crate) seed: u64,
}

/// The results of the schedules so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) schedules: u64,
    cases: usize,
    violations: Vec<String>,
}

/// Runs `cargo xtask soak`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let all = find(root, &Workspace::load(root)?)?;
    if arguments.list {
        for name in all.iter().flat_map(|cases| &cases.names) {
            println!("{name}");
        }
        return Ok(());
    }
    let chosen = chosen(&all, arguments.case.as_deref())?;
    let cases: u64 = chosen.iter().map(|cases| cases.names.len() as u64).sum();
    let share = Share {
        schedules: arguments.schedules.div_ceil(cases.max(1)),
        seed: arguments.seed,
    };
    let started = Instant::now();
    let mut tally = Tally::default();
    for cases in &chosen {
        let line = line(cases, arguments.case.as_deref(), share);
        println!("   $ {line}");
        let result = line.run_watched(root, |line| tally.watch(line));
        tally.judge(result)?;
    }
    tally.require(cases, share)?;
    println!(
        "{} schedules of {cases} cases from seed {} on, no violation, {:.0} s; \
         again: cargo xtask soak --schedules {} --seed {}{}",
        tally.schedules,
        share.seed,
        started.elapsed().as_secs_f64(),
        arguments.schedules,
        arguments.seed,
        arguments
            .case
            .as_ref()
            .map_or_else(String::new, |name| format!(" --case {name}")),
    );
    Ok(())
}

/// Finds the libraries with cases.
pub(crate) fn find(root: &Path, workspace: &Workspace) -> Result<Vec<Cases>, String> {
    find_in(workspace, &files::list(root)?, |path| {
        files::read(root, path)
    })
}

fn find_in(
    workspace: &Workspace,
    paths: &[String],
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<Cases>, String> {
    let mut found = Vec::new();
    for package in workspace.libraries() {
        let sources = format!("{}src/", workspace.directory(package));
        let mut names = Vec::new();
        let own = paths
            .iter()
            .filter(|path| path.starts_with(&sources) && path.ends_with(FILE));
        for path in own {
            names.extend(tests(&Scan::new(&read(path)?).code));
        }
        if !names.is_empty() {
            found.push(Cases {
                package: package.name.clone(),
                names,
            });
        }
    }
    Ok(found)
}

/// Returns the names of the functions after `#[test]`.
fn tests(code: &str) -> Vec<String> {
    code.split("#[test]")
        .skip(1)
        .filter_map(|behind| behind.split_once("fn ")?.1.split_once('('))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

/// Returns the packages that have the wanted case; all packages if no case is named.
fn chosen(all: &[Cases], wanted: Option<&str>) -> Result<Vec<Cases>, String> {
    let Some(wanted) = wanted else {
        return Ok(all.to_vec());
    };
    let has = |cases: &&Cases| cases.names.iter().any(|name| name == wanted);
    let only = |cases: &Cases| Cases {
        package: cases.package.clone(),
        names: vec![wanted.to_owned()],
    };
    let found: Vec<Cases> = all.iter().filter(has).map(only).collect();
    if found.is_empty() {
        return Err(format!(
            "there is no case `{wanted}`; cargo xtask soak --list shows them"
        ));
    }
    Ok(found)
}

/// Returns the command line that runs the cases of one package, or only the wanted case.
pub(crate) fn line(cases: &Cases, wanted: Option<&str>, share: Share) -> Invocation {
    under_shuttle(&["test", "-p", &cases.package, "--lib"])
        .variable("TICKLESS_FUZZ_SCHEDULES", share.schedules.to_string())
        .variable("TICKLESS_FUZZ_SEED", share.seed.to_string())
        .arg(wanted.map_or_else(|| "fuzz::".to_owned(), |name| format!("fuzz::{name}")))
        .args(&["--", "--nocapture"])
}

fn under_shuttle(arguments: &[&str]) -> Invocation {
    Invocation::cargo(arguments)
        .args(&["--profile", "loom", "--target-dir", "target/shuttle"])
        .variable("RUSTFLAGS", "--cfg shuttle")
}

impl Tally {
    /// Reads a line of the output, and counts the schedules in it.
    pub(crate) fn watch(&mut self, line: &str) {
        if let Some(schedules) = done(line) {
            self.schedules += schedules;
            self.cases += 1;
        } else if line.contains("violated by schedule ") {
            self.violations.push(line.to_owned());
        }
    }

    /// Returns the result of a run. If a rule was broken, the result has the lines that tell the user how to repeat the
    /// failure.
    pub(crate) fn judge(&self, result: Result<(), String>) -> Result<(), String> {
        match result {
            Err(_) if !self.violations.is_empty() => Err(self.violations.join("\n   ")),
            other => other,
        }
    }

    /// Checks that all cases ran, and that each ran its whole share of schedules.
    pub(crate) fn require(&self, cases: u64, share: Share) -> Result<(), String> {
        let wanted = cases * share.schedules;
        if self.cases as u64 >= cases && self.schedules >= wanted {
            return Ok(());
        }
        Err(format!(
            "{wanted} schedules of {cases} cases were to run, but {} of {} did: is every fuzz.rs compiled?",
            self.schedules, self.cases
        ))
    }
}

/// Returns the number in a line like `two_by_two: 2000 schedules from seed 1 on, no violation`, at whichever column the
/// text begins.
fn done(line: &str) -> Option<u64> {
    let (before, behind) = line.split_once(" schedules from seed ")?;
    let number = before.rsplit(' ').next()?.parse().ok()?;
    behind.ends_with(", no violation").then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Cases, Share, Tally, chosen, done, find_in, line};
    use crate::workspace::samples::{library, workspace};

    const SHARE: Share = Share {
        schedules: 10,
        seed: 7,
    };

    fn found() -> Vec<Cases> {
        let sample = workspace(
            &[library("one", json!([])), library("two", json!([]))],
            &[],
            &[],
        );
        let paths = ["crates/one/src/a/fuzz.rs", "crates/two/src/b.rs"].map(str::to_owned);
        find_in(&sample, &paths, |_| {
            Ok(
                "#[test]\nfn first() {}\n/// Docs.\n#[test]\nfn second() {}\n// #[test] fn no() {}"
                    .into(),
            )
        })
        .unwrap()
    }

    #[test]
    fn cases_are_the_tests_of_files_called_fuzz() {
        assert_eq!(
            found(),
            [Cases {
                package: "one".into(),
                names: vec!["first".into(), "second".into()],
            }]
        );
    }

    #[test]
    fn one_case_can_be_run_alone() {
        let only = chosen(&found(), Some("second")).unwrap();
        assert_eq!(only[0].names.len(), 1);
        assert_eq!(
            line(&only[0], Some("second"), SHARE).to_string(),
            "RUSTFLAGS=\"--cfg shuttle\" TICKLESS_FUZZ_SCHEDULES=10 TICKLESS_FUZZ_SEED=7 cargo test -p one --lib \
             --profile loom --target-dir target/shuttle fuzz::second -- --nocapture"
        );
        let refused = chosen(&found(), Some("third")).unwrap_err();
        assert!(refused.contains("no case `third`"), "{refused}");
    }

    #[test]
    fn a_case_that_did_not_run_is_noticed() {
        let mut tally = Tally::default();
        tally.watch("test fuzz::first ... first: 10 schedules from seed 7 on, no violation");
        tally.watch("running 1 test");
        assert!(tally.require(1, SHARE).is_ok());
        let missing = tally.require(2, SHARE).unwrap_err();
        assert!(missing.contains("but 10 of 1 did"), "{missing}");
    }

    #[test]
    fn a_violation_says_how_to_see_it_again() {
        let mut tally = Tally::default();
        let line = "first: violated by schedule 3 of seed 7; to see it alone: cargo xtask soak --case first";
        tally.watch(line);
        let failed = tally.judge(Err("exit status: 101".into()));
        assert_eq!(failed, Err(line.to_owned()));
        let other = Tally::default().judge(Err("it does not build".into()));
        assert_eq!(other, Err("it does not build".to_owned()));
    }

    #[test]
    fn the_line_of_a_case_is_understood() {
        assert_eq!(
            done("a: 2000 schedules from seed 1 on, no violation"),
            Some(2_000)
        );
        assert_eq!(done("a: 2000 schedules from seed 1 on"), None);
        assert_eq!(done("many schedules"), None);
    }
}
