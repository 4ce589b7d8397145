//! The one test command: CI runs `cargo xtask check`, and nothing else.
//!
//! The steps are a [list of command lines](steps); each step shows the lines that it executes, and a person can type
//! each of them.
//!
//! A step passes or fails. A line that needs a tool (a toolchain, a target, a program) which is missing and which rustup
//! cannot install is skipped: this never fails the check, and is never silent. The end lists and counts every skip.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use self::run::Run;
use self::steps::{Part, STEPS, Share, Step};
use crate::files;
use crate::invocation::{Invocation, is_installed};
use crate::toolchain;

mod kernel;
mod run;
mod steps;

/// Checks the library; with --all everything, as CI does.
///
/// Runs the steps in the order of --list, all of them unless --fail-fast is given. Each step prints the command lines
/// that it executes. At the end stands a table of all steps; it lists and counts what was skipped because a tool is
/// missing, which does not fail the check. Exits with 0 when no step failed, with 1 otherwise.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Runs only fmt, tidy, clippy, and the tests of the packages that changed since they last passed.
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Runs the steps of the laboratory and of the kernel, too, and those that repeat the tests in another way.
    #[arg(long, conflicts_with_all = ["only", "quick"])]
    all: bool,
    /// Runs only this step; repeat it for more.
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Shows the steps and their descriptions, and runs nothing.
    #[arg(long)]
    list: bool,
    /// Stops at the first failure. Without this option one run finds every failure.
    #[arg(long)]
    fail_fast: bool,
}

struct Row<'r> {
    step: &'static str,
    failure: Option<String>,
    took: Duration,
    run: Run<'r>,
}

pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if arguments.list {
        for step in STEPS.iter() {
            let share = match step.share {
                Share::Quick => "quick",
                Share::Full => "",
                Share::All => "with --all",
                Share::OnRequest => "only on request",
            };
            println!(
                "{}",
                format!("{:<13}{:<92}{share}", step.name, step.about).trim_end()
            );
        }
        return Ok(());
    }
    let started = Instant::now();
    let is_fresh = !arguments.quick && is_fresh(root);
    let mut rows = Vec::new();
    for step in selected(arguments)? {
        println!("\n== {}: {}", step.name, step.about);
        let began = Instant::now();
        let mut run = Run::new(root, is_fresh);
        let mut parts = step.parts.iter();
        let result = parts.try_for_each(|part| perform(&mut run, step, part));
        let (failure, took) = (result.err(), began.elapsed());
        let word = if failure.is_some() {
            "FAILED"
        } else {
            "passed"
        };
        println!("== {}: {word} after {:.1} s", step.name, took.as_secs_f64());
        let stops = failure.is_some() && arguments.fail_fast;
        rows.push(Row {
            step: step.name,
            failure,
            took,
            run,
        });
        if stops {
            break;
        }
    }
    print!("\n{}", report(&rows, started.elapsed()));
    let failed = rows.iter().filter(|row| row.failure.is_some());
    let failed: Vec<&str> = failed.map(|row| row.step).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("the check failed: {}", failed.join(", ")))
    }
}

/// Returns true if the compiler kept nothing for the next change, except of this program: in a clean clone it keeps
/// nothing either, which takes a fifth less time and half of the disk.
fn is_fresh(root: &Path) -> bool {
    let kept = std::fs::read_dir(files::target(root).join("debug/incremental"));
    let mut kept = kept.into_iter().flatten().flatten();
    kept.all(|entry| entry.file_name().to_string_lossy().starts_with("xtask-"))
}

/// Returns the steps to run, in the order of the list, in whatever order they were named.
fn selected(arguments: &Arguments) -> Result<Vec<&'static Step>, String> {
    let (only, quick) = (&arguments.only, arguments.quick);
    if let Some(unknown) = only
        .iter()
        .find(|name| STEPS.iter().all(|step| step.name != *name))
    {
        return Err(format!(
            "there is no step `{unknown}`; cargo xtask check --list shows them"
        ));
    }
    let wanted = |step: &&Step| match step.share {
        _ if !only.is_empty() => only.iter().any(|name| name == step.name),
        Share::Quick => true,
        Share::Full => !quick,
        Share::All => arguments.all,
        Share::OnRequest => quick && step.name == "changed",
    };
    Ok(STEPS.iter().filter(wanted).collect())
}

fn perform(run: &mut Run<'_>, step: &Step, part: &Part) -> Result<(), String> {
    let line = &part.line;
    for (kind, name) in &part.needs {
        if let Err(reason) = fulfil(run.root(), kind, name) {
            run.skip(&format!("{}: `{line}`", step.name), &reason);
            return Ok(());
        }
    }
    match line.strip_prefix("own ") {
        Some("changed") => changed(run),
        Some("kernel") => kernel::step(run),
        Some(other) => Err(format!("xtask has no function {other}")),
        None => match run.shell(line) {
            Err(_) if part.is_search => {
                let found = run.causes.pop().map(|(_, output)| output);
                let found = found.unwrap_or_default();
                run.finds.push(format!("`{line}` found:\n{found}"));
                Ok(())
            }
            result => result,
        },
    }
}

/// Makes sure of what a line needs, or returns the reason why it is not there.
fn fulfil(root: &Path, kind: &str, name: &str) -> Result<(), String> {
    match kind {
        "target" => toolchain::ensure_target(root, name),
        "toolchain" => toolchain::ensure_toolchain(root, name),
        "nightly" => {
            toolchain::ensure_toolchain(root, "nightly")?;
            toolchain::ensure_component(root, "nightly", name)
        }
        "program" if is_installed(name) => Ok(()),
        "program" => Err(format!("there is no {name}")),
        "table" => {
            let compiler = Invocation::new("rustc").arg("-V").capture(root)?.stdout;
            let wanted = format!("With {} for {}", compiler.trim(), std::env::consts::ARCH);
            let is_there = files::read(root, name)?.contains(&wanted);
            is_there
                .then_some(())
                .ok_or_else(|| "its table is of another compiler".to_owned())
        }
        _ => Err(format!("nothing is known of {kind}")),
    }
}

/// Runs the tests of the packages with files that differ from those whose tests passed last.
fn changed(run: &mut Run<'_>) -> Result<(), String> {
    let (root, target) = (run.root(), files::target(run.root()));
    let kept = target.join("xtask-tested");
    // The files as they are, as a tree of git, by an index of its own.
    let index = target.join("xtask-index").display().to_string();
    let tree =
        format!("GIT_INDEX_FILE={index} git add -A && GIT_INDEX_FILE={index} git write-tree");
    let tree = Invocation::new("sh").args(&["-c", &tree]).capture(root)?;
    tree.result?;
    let tree = tree.stdout.trim().to_owned();
    // In a new clone nothing has passed yet: there, what the last commit has counts as tested.
    let before = std::fs::read_to_string(&kept).unwrap_or_else(|_| "HEAD".to_owned());
    let names = Invocation::new("git")
        .args(&["diff", "--name-only", before.trim(), &tree])
        .capture(root)?;
    let workspace = run.workspace()?;
    let has_changed =
        |directory: &str| names.stdout.lines().any(|path| path.starts_with(directory));
    let all = names.result.is_err() || has_changed("Cargo.");
    let members = workspace
        .members()
        .filter(|package| all || has_changed(&workspace.directory(package)));
    for package in members {
        run.shell(&format!("cargo test --all-features -p {}", package.name))?;
    }
    std::fs::write(&kept, tree).map_err(|error| format!("{}: {error}", kept.display()))
}

/// Returns the end of the check: the table of the steps, what was skipped, found, and what failed. What failed stands
/// last, because the end of a long output is all that some places keep.
fn report(rows: &[Row<'_>], total: Duration) -> String {
    let mut text = String::new();
    for row in rows {
        let result = if row.failure.is_some() {
            "FAILED"
        } else {
            "passed"
        };
        text += &format!(
            "{:<14}{result:<8}{:>8.1} s\n",
            row.step,
            row.took.as_secs_f64()
        );
    }
    let skips = rows.iter().flat_map(|row| &row.run.skips);
    let count = skips.clone().count();
    text.extend(skips.map(|skip| format!("skipped: {skip}\n")));
    for row in rows {
        text.extend(
            row.run
                .finds
                .iter()
                .map(|find| format!("\nFOUND by {}: {find}\n", row.step)),
        );
    }
    let failed = rows.iter().filter(|row| row.failure.is_some()).count();
    let passed = rows.len() - failed;
    text += &format!(
        "{passed} passed, {failed} failed, {count} skipped, {:.0} s\n",
        total.as_secs_f64()
    );
    for row in rows {
        for (what, output) in &row.run.causes {
            text += &format!("\n-- {}: {what}\n{output}\n", row.step);
        }
        text.extend(
            row.failure
                .iter()
                .map(|failure| format!("failed: {}: {failure}\n", row.step)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use clap::Parser;

    use super::{Arguments, Row, Run, STEPS, report, selected};

    fn names(line: &str) -> Vec<&'static str> {
        let arguments = Line::try_parse_from(line.split(' ')).unwrap().arguments;
        selected(&arguments)
            .unwrap()
            .iter()
            .map(|step| step.name)
            .collect()
    }

    /// A command line with the options of the check.
    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn steps_are_chosen_in_the_order_of_the_list() {
        assert_eq!(names("check --quick"), ["fmt", "tidy", "clippy", "changed"]);
        assert_eq!(names("check --only mutants --only fmt"), ["fmt", "mutants"]);
        let (product, all) = (names("check"), names("check --all"));
        assert!(
            product.contains(&"test")
                && !product.contains(&"changed")
                && !product.contains(&"worlds")
        );
        assert!(product.iter().all(|step| all.contains(step)) && all.contains(&"worlds"));
        assert!(all.len() < STEPS.len());
        let unknown = Line::try_parse_from(["check", "--only", "nothing"])
            .unwrap()
            .arguments;
        assert!(selected(&unknown).unwrap_err().contains("`nothing`"));
    }

    #[test]
    fn the_end_counts_skips_and_shows_what_failed() {
        let row = |step, failure: Option<&str>| {
            let mut run = Run::new(Path::new("."), false);
            run.skip("a", "b");
            let took = Duration::from_secs(1);
            Row {
                step,
                failure: failure.map(str::to_owned),
                took,
                run,
            }
        };
        let text = report(
            &[row("one", None), row("two", Some("why"))],
            Duration::from_secs(2),
        );
        assert!(text.contains("skipped: a, because b\n"), "{text}");
        assert!(
            text.contains("1 passed, 1 failed, 2 skipped, 2 s\n"),
            "{text}"
        );
        assert!(text.ends_with("failed: two: why\n"), "{text}");
    }
}
