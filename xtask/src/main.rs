//! The project's own tasks, as `cargo xtask TASK`.
//!
//! Other projects use shell scripts for these tasks. Here they are Rust: the same compiler, lints and tests check them,
//! they run on every system on which the library builds, and their lists come from `cargo metadata`, so that a new
//! package cannot be forgotten.
//!
//! | task | does |
//! |---|---|
//! | `check` | everything that CI does, step by step; its result is CI's result |
//! | `tidy` | the rules of the house style that no lint knows |
//! | `mutants` | breaks each rule of the library on purpose and demands that the suite notices |
//! | `structure` | which file of a crate imports which, circles, lines |
//! | `kernel` | builds the kernel, runs it in an emulator, and shows its report |
//! | `repeat` | runs the tests, or random schedules, over and over, for failures that come now and then |
//!
//! Exit codes: 0 when every check held, 1 when a check did not, 2 for bad arguments.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its user"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod files;
mod invocation;
mod kernel;
mod mutants;
#[cfg(test)]
mod page_blocks;
mod repeat;
mod structure;
mod tidy;
mod toolchain;
mod workspace;

/// The project's own tasks.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Check(check::Arguments),
    Tidy(tidy::Arguments),
    Mutants(mutants::Arguments),
    Structure(structure::Arguments),
    Kernel(kernel::Arguments),
    Repeat(repeat::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = root().and_then(|root| match cli.task {
        Task::Check(arguments) => check::main(&root, &arguments),
        Task::Tidy(arguments) => tidy::main(&root, &arguments),
        Task::Mutants(arguments) => mutants::main(&root, &arguments),
        Task::Structure(arguments) => structure::main(&root, &arguments),
        Task::Kernel(arguments) => kernel::main(&root, &arguments),
        Task::Repeat(arguments) => repeat::main(&root, &arguments),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the checkout in which `cargo xtask` was called.
///
/// Cargo gives the root at run time. The value at compile time would be wrong after the checkout was moved.
fn root() -> Result<PathBuf, String> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("the checkout is unknown: start this as `cargo xtask`")?;
    let mut root = PathBuf::from(package);
    root.pop();
    Ok(root)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;

    use super::page_blocks;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }

    /// Returns the words of the command lines of the pages, each with its page, without variables that a shell sets
    /// before the command.
    fn lines_of_pages(root: &Path) -> Vec<(String, Vec<String>)> {
        let words = |line: &str| {
            let words = page_blocks::words(line).into_iter();
            let words = words.skip_while(|word| word.contains('=') && !word.starts_with('-'));
            words.collect::<Vec<_>>()
        };
        let lines = page_blocks::shell_lines(root).into_iter();
        lines
            .map(|(place, line)| (place, words(&line)))
            .filter(|(_, words)| !words.is_empty())
            .collect()
    }

    #[test]
    fn the_tasks_that_pages_name_are_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut count = 0;
        for (page, words) in lines_of_pages(&root) {
            if words.len() < 2 || words[..2] != ["cargo", "xtask"] {
                continue;
            }
            let understood = super::Cli::command().try_get_matches_from(&words[1..]);
            assert!(understood.is_ok(), "{page}: {words:?}: {understood:?}");
            count += 1;
        }
        assert!(count > 3, "{count}");
    }

    /// Returns the names after `option`; a list of features is split.
    fn values<'w>(words: &'w [String], option: &str) -> Vec<&'w str> {
        let pairs = words.windows(2).filter(|pair| pair[0] == option);
        pairs.flat_map(|pair| pair[1].split(',')).collect()
    }

    /// Checks that the packages, features, examples, programs and tests that cargo commands of the pages name exist.
    #[test]
    fn what_pages_have_cargo_run_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let packages = ["Cargo.toml", "laboratory/Cargo.toml"].map(|manifest| {
            let metadata = std::process::Command::new(env!("CARGO"))
                .args([
                    "metadata",
                    "--no-deps",
                    "--offline",
                    "--format-version",
                    "1",
                ])
                .args(["--manifest-path", manifest])
                .current_dir(&root)
                .output()
                .expect("cargo runs");
            let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
            metadata["packages"].as_array().expect("a list").clone()
        });
        let packages = packages.concat();
        let mut count = 0;
        for (page, words) in lines_of_pages(&root) {
            let mut of_cargo = words.iter();
            let is_run = of_cargo.next().is_some_and(|word| word == "cargo")
                && of_cargo
                    .any(|word| ["run", "test", "build", "laboratory"].contains(&word.as_str()));
            if !is_run {
                continue;
            }
            let command = words.split(|word| word == "--").next().unwrap_or_default();
            let mut features = BTreeSet::new();
            let mut targets = BTreeSet::new();
            for name in values(command, "-p") {
                let package = packages.iter().find(|package| package["name"] == name);
                let package = package.unwrap_or_else(|| panic!("{page}: no package {name}"));
                features.extend(
                    package["features"]
                        .as_object()
                        .expect("a map")
                        .keys()
                        .cloned(),
                );
                for target in package["targets"].as_array().expect("a list") {
                    let kind = target["kind"][0].as_str().expect("a kind");
                    targets.insert((
                        kind.to_owned(),
                        target["name"].as_str().expect("a name").to_owned(),
                    ));
                }
            }
            for feature in values(command, "--features") {
                assert!(
                    features.contains(feature),
                    "{page}: {words:?}: no feature {feature}"
                );
            }
            for kind in ["example", "bin", "test"] {
                for target in values(command, &format!("--{kind}")) {
                    let wanted = (kind.to_owned(), target.to_owned());
                    assert!(
                        targets.contains(&wanted),
                        "{page}: {words:?}: no {kind} {target}"
                    );
                }
            }
            count += 1;
        }
        assert!(count > 10, "{count}");
    }
}
