//! The check of the models: loom runs every file `model.rs` of a package that is a library.
//!
//! The step finds the packages by searching for those files, so that a new model needs no entry anywhere. A model that
//! is never compiled would not be noticed, so the step counts the tests that ran and compares the count with the tests
//! in the files.

use std::collections::BTreeMap;
use std::time::Duration;

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::tidy::scan::Scan;
use crate::workspace::Workspace;

/// The time without output after which a run counts as hung. A model that is explored whole prints nothing for half an
/// hour on a busy machine.
const SILENCE: Duration = Duration::from_secs(2 * 60 * 60);

/// The models of one package.
#[derive(Debug, PartialEq, Eq)]
struct Models {
    package: String,
    /// The number of tests in its model files.
    tests: usize,
    /// True if only its model files use loom, so that the other steps cover everything else.
    all_in_model_files: bool,
}

/// The extent of the exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Explores most cases with one preemption less than they name, and a few with two: this takes two minutes at most.
    Short,
    /// Explores all preemptions that the cases name: this takes half an hour on two idle CPUs.
    Whole,
}

pub(super) fn step(run: &mut Run<'_>, extent: Extent) -> Result<(), String> {
    if extent == Extent::Short {
        run.note("most cases have one preemption less than they name: cargo xtask check --only models has all");
    }
    let root = run.root();
    let found = find(run.workspace()?, &files::list(root)?, |path| {
        files::read(root, path)
    })?;
    if found.is_empty() {
        run.skip("loom", "no library has a file called model.rs");
    }
    let mut ran = Ran::default();
    if !found.is_empty() {
        run.invoke_tests_watched(&line(&found, extent), SILENCE, |program, line| {
            ran.watch(program, line);
        })?;
    }
    found
        .iter()
        .try_for_each(|models| require_all(models, &ran))
}

/// Returns one command for all packages, so that cargo builds shared dependencies once, and the programs in parallel.
fn line(found: &[Models], extent: Extent) -> Invocation {
    let packages: Vec<&str> = found.iter().map(|models| &*models.package).collect();
    let line = Invocation::cargo(&["test"])
        .packages(&packages)
        .args(&["--lib", "--profile", "loom", "--target-dir", "target/loom"])
        .variable("RUSTFLAGS", "--cfg loom");
    let line = match extent {
        Extent::Short => line.variable("TICKLESS_SHORT_MODELS", "1"),
        Extent::Whole => line,
    };
    if found.iter().all(|models| models.all_in_model_files) {
        line.args(&["--", "model::"])
    } else {
        line
    }
}

/// The number of tests that each program ran.
#[derive(Debug, Default)]
struct Ran {
    tests: BTreeMap<String, usize>,
}

impl Ran {
    fn watch(&mut self, program: &str, line: &str) {
        if let Some(tests) = announced(line) {
            *self.tests.entry(program.to_owned()).or_default() += tests;
        }
    }

    fn tests_of(&self, package: &str) -> usize {
        let program = format!("unit tests of {}", package.replace('-', "_"));
        self.tests.get(&program).copied().unwrap_or(0)
    }
}

fn require_all(models: &Models, ran: &Ran) -> Result<(), String> {
    let executed = ran.tests_of(&models.package);
    if executed >= models.tests {
        return Ok(());
    }
    Err(format!(
        "{} has {} tests in its model files, but only {executed} ran: is every model.rs compiled?",
        models.package, models.tests
    ))
}

/// Finds the packages that have models among `paths`. Only libraries count, in whichever directory they are.
fn find(
    workspace: &Workspace,
    paths: &[String],
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<Models>, String> {
    let mut found = Vec::new();
    for package in workspace.members().filter(|package| package.is_library()) {
        let sources = format!("{}src/", workspace.directory(package));
        let mut models = Models {
            package: package.name.clone(),
            tests: 0,
            all_in_model_files: true,
        };
        let mut has_models = false;
        let own = paths
            .iter()
            .filter(|path| path.starts_with(&sources) && path.ends_with(".rs"));
        for path in own {
            let code = Scan::new(&read(path)?).code;
            if is_model(path) {
                // A folder of that name alone may hold models of anything: those of machines, in the simulator.
                has_models |= path.ends_with("/model.rs");
                models.tests += code.matches("#[test]").count();
            } else if code.contains("loom::model") {
                models.all_in_model_files = false;
            }
        }
        if has_models {
            found.push(models);
        }
    }
    Ok(found)
}

/// Returns true if the tests of the file at `path` have `model::` in their names.
fn is_model(path: &str) -> bool {
    path.ends_with("/model.rs") || path.contains("/model/")
}

/// Returns the number in a line like `running 5 tests`.
fn announced(line: &str) -> Option<usize> {
    let (number, rest) = line.strip_prefix("running ")?.split_once(' ')?;
    rest.starts_with("test").then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Extent, Models, Ran, announced, find, line, require_all};
    use crate::workspace::samples::{library, workspace};

    fn found(files: &[(&str, &str)]) -> Vec<Models> {
        let sample = workspace(
            &[library("one", json!([])), library("two", json!([]))],
            &[],
            &[],
        );
        let paths: Vec<String> = files.iter().map(|(path, _)| (*path).into()).collect();
        find(&sample, &paths, |wanted| {
            let (_, text) = files.iter().find(|(path, _)| *path == wanted).unwrap();
            Ok((*text).into())
        })
        .unwrap()
    }

    #[test]
    fn only_packages_with_model_files_are_found_and_their_tests_counted() {
        let models = found(&[
            (
                "crates/one/src/bias/model.rs",
                "#[test] fn a() {}\n#[test] fn b() {}",
            ),
            ("crates/one/src/model.rs", "// #[test]\n#[test] fn c() {}"),
            ("crates/two/src/models.rs", "#[test] fn d() {}"),
            ("crates/two/src/model/profile.rs", "#[test] fn e() {}"),
        ]);
        assert_eq!(models.len(), 1);
        assert_eq!(models[0].package, "one");
        assert_eq!(models[0].tests, 3);
        let shown = |extent| line(&models, extent).to_string();
        assert!(shown(Extent::Short).ends_with(" -- model::"));
        let variable = "TICKLESS_SHORT_MODELS=1 ";
        assert_eq!(
            shown(Extent::Short).replace(variable, ""),
            shown(Extent::Whole)
        );
        assert!(shown(Extent::Short).contains(variable));
    }

    #[test]
    fn models_outside_of_the_product_are_found() {
        let mut example = library("shown", json!([]));
        example["manifest_path"] = json!("/w/examples/shown/Cargo.toml");
        let mut tool = library("tool", json!([]));
        tool["manifest_path"] = json!("/w/tool/Cargo.toml");
        tool["targets"] = json!([{"kind": ["bin"]}]);
        let paths = ["examples/shown/src/model.rs", "tool/src/model.rs"].map(String::from);
        let models = find(&workspace(&[example, tool], &[], &[]), &paths, |_| {
            Ok("#[test] fn a() {}".into())
        });
        let models = models.unwrap();
        assert_eq!(models.len(), 1);
        assert_eq!((&*models[0].package, models[0].tests), ("shown", 1));
    }

    #[test]
    fn loom_outside_model_files_makes_the_whole_package_run() {
        let models = found(&[
            ("crates/one/src/model.rs", "#[test] fn a() {}"),
            ("crates/one/src/tests.rs", "fn b() { loom::model(|| {}) }"),
        ]);
        assert!(!models[0].all_in_model_files);
        assert_eq!(
            line(&models, Extent::Whole).to_string(),
            "RUSTFLAGS=\"--cfg loom\" cargo test -p one --lib --profile loom --target-dir target/loom"
        );
    }

    #[test]
    fn a_model_that_did_not_run_is_noticed() {
        let models = &found(&[("crates/one/src/model.rs", "#[test] fn a() {}")])[0];
        let mut ran = Ran::default();
        for line in ["running 5 tests", "test a ... ok"] {
            ran.watch("unit tests of two", line);
        }
        let message = require_all(models, &ran).unwrap_err();
        assert!(message.contains("only 0 ran"), "{message}");
        ran.watch("unit tests of one", "running 1 test");
        assert_eq!(require_all(models, &ran), Ok(()));
    }

    #[test]
    fn the_announcement_of_a_test_program_is_understood() {
        assert_eq!(announced("running 5 tests"), Some(5));
        assert_eq!(announced("running 1 test"), Some(1));
        assert_eq!(announced("running fast"), None);
        assert_eq!(announced("test a ... ok"), None);
    }
}
