//! The steps that run the tests, and the facts that they read from the output as it arrives: skips, and the time of
//! each test program.

use std::time::{Duration, Instant};

use super::changed::{Sources, Wanted};
use super::run::Run;
use super::summary::{Cause, SHOWN};
use crate::invocation::{Invocation, is_installed};
use crate::{files, workspace::Workspace};

/// Tests of the library in which threads wait for each other, or share a resource whose use is timed. On one processor,
/// a thread that waits for another thread would wait for ever if that thread waits itself.
const OF_THREADS: [&str; 9] = [
    "builder",
    "event_loop",
    "executor",
    "hierarchy",
    "process",
    "runtimes",
    "time",
    "timers",
    "worker",
];

/// Runs all tests, doctests included.
pub(super) fn test(run: &mut Run<'_>) -> Result<(), String> {
    let sources = Sources::read(run.root(), &files::list(run.root())?)?;
    let line = whole(run.workspace()?);
    run.invoke_tests(&line)?;
    sources.save(run.root())
}

/// Returns the command line for the tests of all members, with all tested features.
pub(super) fn whole(workspace: &Workspace) -> Invocation {
    let mut features: Vec<String> = workspace
        .members()
        .flat_map(|package| {
            let features = package.features.keys();
            features.map(|feature| format!("{}/{feature}", package.name))
        })
        .filter(|feature| !feature.ends_with("/default"))
        .collect();
    features.sort();
    let line = Invocation::cargo(&["test", "--workspace", "--no-fail-fast"]);
    if features.is_empty() {
        return line;
    }
    line.arg("--features").arg(features.join(","))
}

/// Runs the tests of the files that changed since they last passed.
pub(super) fn test_changed(run: &mut Run<'_>) -> Result<(), String> {
    let sources = Sources::read(run.root(), &files::list(run.root())?)?;
    let wanted = sources.changed_since(&Sources::load(run.root()), run.workspace()?);
    if wanted.is_empty() {
        run.note("nothing changed since the tests last passed");
        return sources.save(run.root());
    }
    for wanted in &wanted {
        run.invoke_tests(&line(wanted))?;
    }
    let relying = relying(run.workspace()?, &wanted);
    if !relying.is_empty() {
        run.note(&format!(
            "not tested: {}, which build on that; cargo xtask check tests everything",
            relying.join(", ")
        ));
    }
    sources.save(run.root())
}

fn line(wanted: &Wanted) -> Invocation {
    let line = Invocation::cargo(&["test", "--all-features"]).packages(&[&wanted.package]);
    let tests = wanted.tests.iter().flatten();
    tests.fold(line, |line, test| line.arg("--test").arg(test))
}

/// Returns the members that depend on those that are `wanted` and are not wanted themselves.
fn relying<'w>(workspace: &'w Workspace, wanted: &[Wanted]) -> Vec<&'w str> {
    let is_wanted = |name: &str| wanted.iter().any(|wanted| wanted.package == name);
    let whole = wanted.iter().filter(|wanted| wanted.tests.is_none());
    let changed: Vec<_> = whole
        .filter_map(|wanted| workspace.member(&wanted.package))
        .map(|package| &*package.id)
        .collect();
    let members = workspace.members();
    members
        .filter(|package| !is_wanted(&package.name))
        .filter(|package| {
            let needed = workspace.needed_by([*package]);
            changed.iter().any(|changed| needed.contains(changed))
        })
        .map(|package| &*package.name)
        .collect()
}

/// Runs the tests in the build of a user: optimised, without debug assertions.
///
/// Some tests are left out. Each doctest is a program to be linked, and debug assertions do not decide whether an
/// example is right. The tests of the tasks are never built in this way. The simulator, the tools and the examples are
/// left out because this step tests the code below them directly.
///
/// The tests of [threads](OF_THREADS) are executed once more, on one processor.
pub(super) fn test_release(run: &mut Run<'_>) -> Result<(), String> {
    const LEFT_OUT: [&str; 6] = [
        "xtask",
        "tickless-bench",
        "tickless-lab",
        "tickless-peers",
        "tickless-protocols",
        "tickless-sim",
    ];
    let line = Invocation::cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"]);
    let line = LEFT_OUT
        .iter()
        .fold(line, |line, package| line.args(&["--exclude", package]))
        .args(&["--profile", "testrelease"]);
    run.invoke_tests(&line.clone().args(&["--lib", "--bins", "--tests"]))?;
    if !is_installed("taskset") {
        run.skip("tests on one processor", "there is no taskset (util-linux)");
        return Ok(());
    }
    run.invoke_tests(&on_one_processor(&line))
}

/// Returns the command line of the tests of [threads](OF_THREADS), built by `line`, on one processor that this process
/// may use.
fn on_one_processor(line: &Invocation) -> Invocation {
    OF_THREADS
        .iter()
        .fold(line.clone().on_one_cpu(), |line, test| {
            line.args(&["--test", test])
        })
}

/// The programs and results in the output of `cargo test`, read line by line.
#[derive(Debug)]
pub(super) struct Programs {
    current: String,
    since: Instant,
    /// The last lines of the current program; all lines of its failed tests.
    lines: Vec<String>,
    /// The result of the current program; `None` until it is printed.
    passed: Option<bool>,
    results: Results,
}

/// The results of the programs of one run of `cargo test`.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// The build and each test program, with the time that each took.
    pub(super) spent: Vec<(String, Duration)>,
    /// The lines in which tests report that they skipped: `skipped: WHAT, because WHY`.
    pub(super) skips: Vec<String>,
    /// The programs that printed no success, with the end of their output.
    pub(super) failed: Vec<Cause>,
}

impl Programs {
    pub(super) fn new() -> Self {
        Self {
            current: BUILDING.into(),
            since: Instant::now(),
            lines: Vec::new(),
            passed: None,
            results: Results::default(),
        }
    }

    pub(super) fn watch(&mut self, line: &str) {
        if let Some(program) = program(line) {
            self.end(program);
            return;
        }
        if let Some((_, skip)) = line.split_once("skipped: ")
            && skip.contains(", because ")
        {
            self.results.skips.push(skip.to_owned());
        }
        self.keep(line);
    }

    /// Keeps what explains a failure: from the list of failed tests on, or the last lines where there is no such list.
    fn keep(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed = Some(result.starts_with("ok"));
        }
        if self.passed.is_some() {
            return;
        }
        let has_list = self.lines.first().is_some_and(|line| line == FAILURES);
        if line == FAILURES && !has_list {
            self.lines.clear();
        } else if self.lines.len() == SHOWN {
            if has_list {
                return;
            }
            self.lines.remove(0);
        }
        self.lines.push(line.to_owned());
    }

    /// Returns the name of the program that runs.
    pub(super) fn current(&self) -> &str {
        &self.current
    }

    /// Returns the results of all programs. A build that succeeded prints no result, so it counts as failed only if it
    /// was the last program.
    pub(super) fn finish(mut self) -> Results {
        self.end(String::new());
        let has_programs = self.results.spent.len() > 1;
        let built = |cause: &Cause| has_programs && cause.what == BUILDING;
        self.results.failed.retain(|failed| !built(failed));
        self.results
    }

    fn end(&mut self, next: String) {
        let now = Instant::now();
        let ended = std::mem::replace(&mut self.current, next);
        let output = std::mem::take(&mut self.lines).join("\n");
        if self.passed.take() != Some(true) {
            let what = ended.clone();
            self.results.failed.push(Cause { what, output });
        }
        self.results.spent.push((ended, now - self.since));
        self.since = now;
    }
}

/// The name of what comes before the first test program.
const BUILDING: &str = "building tests";

/// The line above the output of failed tests.
const FAILURES: &str = "failures:";

/// Returns the test program that cargo starts, if `line` names one.
fn program(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("doctests of {package}"));
    }
    let (source, file) = line.strip_prefix("Running ")?.split_once(" (")?;
    let stem = file.rsplit('/').next()?.strip_suffix(')')?;
    let (name, _hash) = stem.rsplit_once('-')?;
    Some(match source.strip_prefix("unittests ") {
        Some(_) => format!("unit tests of {name}"),
        None => source.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Cause, Programs, Wanted, line, on_one_processor, program, relying, whole};
    use crate::invocation::Invocation;
    use crate::workspace::samples::{library, workspace};

    #[test]
    fn test_programs_are_read_from_the_lines_of_cargo() {
        let lines = [
            "     Running unittests src/lib.rs (target/debug/deps/tickless_link-1f2e)",
            "     Running tests/coarse.rs (target/debug/deps/coarse-1f2e)",
            "   Doc-tests tickless_core",
            "running 5 tests",
            "test Running ... ok",
        ];
        assert_eq!(
            lines.map(program),
            [
                Some("unit tests of tickless_link".into()),
                Some("tests/coarse.rs".into()),
                Some("doctests of tickless_core".into()),
                None,
                None
            ]
        );
    }

    #[test]
    fn skips_of_tests_are_collected_also_behind_the_name_of_a_test() {
        let mut programs = Programs::new();
        programs.watch("skipped: this, because of that");
        programs.watch("test one ... skipped: the other, because there is none");
        programs.watch("test skipped: nothing ... ok");
        let results = programs.finish();
        assert_eq!(
            results.skips,
            ["this, because of that", "the other, because there is none"]
        );
        assert_eq!(results.spent.len(), 1, "it never came beyond building");
    }

    #[test]
    fn a_program_that_prints_no_success_is_kept_with_what_it_printed_last() {
        let failed = |lines: &[&str]| {
            let mut programs = Programs::new();
            lines.iter().for_each(|line| programs.watch(line));
            programs.finish().failed
        };
        let one = "     Running tests/one.rs (target/debug/deps/one-1f2e)";
        let two = "     Running tests/two.rs (target/debug/deps/two-1f2e)";
        let good = "test result: ok. 1 passed; 0 failed";
        assert_eq!(failed(&["   Compiling one", one, good, two, good]), []);
        let named = |what: &str, output: &str| {
            vec![Cause {
                what: what.to_owned(),
                output: output.to_owned(),
            }]
        };
        let bad = [
            "test a ... FAILED",
            "failures:",
            "---- a stdout ----",
            "it says why",
            "failures:",
            "    a",
            "test result: FAILED. 0 passed; 1 failed",
        ];
        let expected = "failures:\n---- a stdout ----\nit says why\nfailures:\n    a";
        let first = [&["   Compiling one", one][..], &bad, &[two, good]].concat();
        assert_eq!(failed(&first), named("tests/one.rs", expected));
        assert_eq!(
            failed(&[one, good, two, "test b ... ", "error: signal: 6"]),
            named("tests/two.rs", "test b ... \nerror: signal: 6")
        );
        assert_eq!(
            failed(&["error: could not compile"]),
            named("building tests", "error: could not compile")
        );
        let many: Vec<String> = (0..99).map(|line| line.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let [Cause { output: last, .. }] = &failed(&[&[one][..], &many].concat())[..] else {
            panic!("one program failed");
        };
        assert!(last.starts_with("39\n") && last.ends_with("\n98"), "{last}");
        let [Cause { output: list, .. }] = &failed(&[&[one, "failures:"][..], &many].concat())[..]
        else {
            panic!("one program failed");
        };
        assert!(
            list.starts_with("failures:\n0\n") && list.ends_with("\n58"),
            "{list}"
        );
    }

    #[test]
    fn all_features_are_tested_but_those_named() {
        let shown = |features: &[(&str, serde_json::Value)]| {
            let packages: Vec<_> = features
                .iter()
                .map(|(name, features)| {
                    let mut package = library(name, json!([]));
                    package["features"] = features.clone();
                    package
                })
                .collect();
            whole(&workspace(&packages, &[], &[])).to_string()
        };
        let some = [
            ("tickless-lab", json!({"parquet": []})),
            ("tickless", json!({"default": [], "hyper": []})),
        ];
        assert_eq!(
            shown(&some),
            "cargo test --workspace --no-fail-fast --features tickless-lab/parquet,tickless/hyper"
        );
        let none = "cargo test --workspace --no-fail-fast";
        assert_eq!(shown(&[("tickless", json!({}))]), none);
    }

    #[test]
    fn tests_of_threads_are_executed_on_a_processor_that_may_be_used() {
        let shown = on_one_processor(&Invocation::cargo(&["test"])).to_string();
        let begins = shown.starts_with("taskset --cpu-list ");
        assert!(begins && shown.contains(" cargo test "), "{shown}");
        assert!(shown.contains(" --test executor "), "{shown}");
    }

    #[test]
    fn single_test_files_are_chosen_by_name() {
        let whole = Wanted {
            package: "tickless".into(),
            tests: None,
        };
        assert_eq!(
            line(&whole).to_string(),
            "cargo test --all-features -p tickless"
        );
        let some = Wanted {
            tests: Some(vec!["coarse".into(), "worker".into()]),
            ..whole
        };
        assert_eq!(
            line(&some).to_string(),
            "cargo test --all-features -p tickless --test coarse --test worker"
        );
    }

    #[test]
    fn what_builds_on_a_changed_package_is_named_unless_only_its_tests_changed() {
        let sample = workspace(
            &[library("link", json!([])), library("core", json!([]))],
            &[],
            &[("core", "link", None)],
        );
        let link = |tests| {
            vec![Wanted {
                package: "link".into(),
                tests,
            }]
        };
        assert_eq!(relying(&sample, &link(None)), ["core"]);
        assert!(relying(&sample, &link(Some(vec!["one".into()]))).is_empty());
    }
}
