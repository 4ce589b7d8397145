//! The project's own tasks, as `cargo xtask TASK`.
//!
//! Other projects use shell scripts for these tasks. Here they are Rust: the same compiler, lints and tests check them,
//! they run on every system on which the library builds, and their lists come from `cargo metadata`, so that a new
//! package cannot be forgotten.
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
    /// Checks the rules of the house style that no lint checks, over every file that git tracks or would track.
    ///
    /// Prints each finding as `path:line: [rule] message: hint`. Exits with 1 when there is one.
    Tidy,
    Mutants(mutants::Arguments),
    Structure(structure::Arguments),
    Kernel(kernel::Arguments),
    Repeat(repeat::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = root().and_then(|root| match cli.task {
        Task::Check(arguments) => check::main(&root, &arguments),
        Task::Tidy => tidy::main(&root),
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
    use std::path::Path;

    use clap::CommandFactory;
    use serde_json::Value;

    use super::page_blocks;

    /// Returns the words of the command lines of the pages, each with its page, without variables that a shell sets
    /// before the command.
    fn lines_of_pages(root: &Path) -> Vec<(String, Vec<String>)> {
        let mut lines = Vec::new();
        for (place, line) in page_blocks::shell_lines(root) {
            let words = page_blocks::words(&line).into_iter();
            let words = words.skip_while(|word| word.contains('=') && !word.starts_with('-'));
            lines.push((place, words.collect::<Vec<_>>()));
        }
        lines.retain(|(_, words)| words.first().is_some_and(|word| word == "cargo"));
        lines
    }

    #[test]
    fn the_tasks_that_pages_name_are_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut lines = lines_of_pages(&root);
        lines.retain(|(_, words)| words.get(1).is_some_and(|word| word == "xtask"));
        for (page, words) in &lines {
            let understood = super::Cli::command().try_get_matches_from(&words[1..]);
            assert!(understood.is_ok(), "{page}: {words:?}: {understood:?}");
        }
        assert!(lines.len() > 3, "{}", lines.len());
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
            let line = "metadata --no-deps --offline --format-version 1 --manifest-path";
            let mut cargo = std::process::Command::new(env!("CARGO"));
            cargo.args(line.split(' ')).arg(manifest);
            let metadata = cargo.current_dir(&root).output().expect("cargo runs");
            let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
            metadata["packages"].as_array().expect("a list").clone()
        });
        let packages = packages.concat();
        let mut count = 0;
        for (page, words) in lines_of_pages(&root) {
            let runs = ["run", "test", "build", "laboratory"];
            if !words.iter().any(|word| runs.contains(&word.as_str())) {
                continue;
            }
            let command = words.split(|word| word == "--").next().unwrap_or_default();
            let mut named = Vec::new();
            for name in values(command, "-p") {
                let package = packages.iter().find(|package| package["name"] == name);
                named.push(package.unwrap_or_else(|| panic!("{page}: no package {name}")));
            }
            for feature in values(command, "--features") {
                let has = |package: &&Value| package["features"].get(feature).is_some();
                assert!(
                    named.iter().any(has),
                    "{page}: {words:?}: no feature {feature}"
                );
            }
            for kind in ["example", "bin", "test"] {
                for name in values(command, &format!("--{kind}")) {
                    let targets = named
                        .iter()
                        .flat_map(|package| package["targets"].as_array());
                    let mut targets = targets.flatten();
                    let is_there = targets.any(|of| of["kind"][0] == kind && of["name"] == name);
                    assert!(is_there, "{page}: {words:?}: no {kind} {name}");
                }
            }
            count += 1;
        }
        assert!(count > 10, "{count}");
    }
}
