//! The one test command: CI runs `cargo xtask check`, and nothing else.
//!
//! A check that only a machine can run teaches a person nothing, so the one list of steps is here. Each step shows the
//! command lines it executes, and a person can type each of them.
//!
//! A step passes, fails, or is skipped because the machine lacks a tool (a toolchain, a target) and rustup cannot
//! install it. A skip never fails the check, and is never silent: the summary lists and counts every skip.
//!
//! A quick check runs the tests of the files that changed since the tests last passed (`changed`); a whole check runs
//! all tests. At the end the check shows the parts that took longest.
//!
//! A whole check makes sure of enough disk space before it begins ([`disk`]).
//!
//! Builds with the same flags share the directory `target`. Builds with different flags do not, because each step would
//! throw away the build of the step before.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use self::disk::Plan;
use self::loom::Extent;
use self::run::Run;
use self::summary::{Outcome, Row, StepVerdict};

mod adapters;
mod book;
mod changed;
mod deny;
mod disk;
mod features;
mod instructions;
mod kernel;
mod licence;
mod loom;
mod miri;
mod moved;
mod msrv;
mod no_std;
mod package;
mod plain;
mod platforms;
mod run;
mod sanitizers;
mod schedules;
mod summary;
mod testing;
mod tokio_family;
mod walls;
mod worlds;

/// Does everything that CI does: the result is CI's result.
///
/// Runs the steps in the order of --list, all of them unless --fail-fast is given. Each step prints the command lines
/// it executes. At the end stands a table of all steps; it lists and counts what was skipped for want of a toolchain,
/// which does not fail the check. Exits with 0 when no step failed, with 1 otherwise.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Runs only the steps that take seconds after everything is built: fmt, tidy, clippy, and the tests of changed
    /// files.
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Runs only this step; repeat it for more.
    #[arg(long, value_name = "STEP", hide_possible_values = true)]
    only: Vec<Step>,
    /// Shows the steps and their descriptions, and runs nothing.
    #[arg(long)]
    list: bool,
    /// Stops at the first failure. Without this option one run finds every failure.
    #[arg(long)]
    fail_fast: bool,
}

/// A step. The order of the variants is the order in which the steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    Fmt,
    Tidy,
    Clippy,
    Features,
    Doc,
    Test,
    TestRelease,
    Worlds,
    NoStd,
    Kernel,
    Platforms,
    Loom,
    Schedules,
    Miri,
    Msrv,
    Package,
    Deny,
    Instructions,
    Adapters,
    TokioFamily,
    Sanitizers,
    Models,
    Mutants,
}

/// The conditions under which a step runs if no step is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// The step runs in every check.
    Quick,
    /// The step runs unless `--quick` is given.
    Full,
    /// The step runs only if it is named, because it takes too long for every run.
    OnRequest,
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    const fn about(self) -> &'static str {
        match self {
            Self::Fmt => "the layout is what rustfmt makes of it",
            Self::Tidy => "the rules of the house style that no lint knows (cargo xtask tidy)",
            Self::Clippy => "no lint speaks, with all features and with none",
            Self::Features => {
                "each set of features of the matrix builds, and the matrix is complete"
            }
            Self::Doc => "the documentation builds without broken links, private items included",
            Self::Test => "the tests pass, doctests included",
            Self::TestRelease => "the tests pass as users build: optimised, debug assertions off",
            Self::Worlds => "a thousand drawn worlds keep every promise, and fresh ones are tried",
            Self::Platforms => "the library builds for other systems, and their host passes",
            Self::NoStd => "the crates that need no operating system build for a bare target",
            Self::Kernel => "the kernel passes its tests on each machine, and runs alike each time",
            Self::Loom => "the models hold in the interleavings that loom explores in some minutes",
            Self::Schedules => {
                "random schedules break no rule, for some seconds (cargo xtask soak)"
            }
            Self::Miri => "Miri finds no undefined behaviour in the crates with unsafe code",
            Self::Msrv => "the library builds with the oldest compiler it promises",
            Self::Package => {
                "what would be published is complete and builds; the C interface is the same"
            }
            Self::Deny => "licences, sources and the walls between the crates are as agreed",
            Self::Instructions => "no hot path takes 3 % more instructions than its table says",
            Self::Adapters => {
                "each adapter works with the crate that it is for; ten minutes to build"
            }
            Self::TokioFamily => {
                "the tests that tokio has of its time pass with this one; two minutes to build"
            }
            Self::Sanitizers => {
                "the C tests pass with a library that sanitizers instrument; minutes to build"
            }
            Self::Models => "the models hold in every interleaving that they name",
            Self::Mutants => "each rule broken on purpose is noticed (cargo xtask mutants)",
        }
    }

    const fn share(self) -> Share {
        match self {
            Self::Fmt | Self::Tidy | Self::Clippy | Self::Test => Share::Quick,
            Self::Adapters | Self::Sanitizers | Self::Models | Self::Mutants => Share::OnRequest,
            _ => Share::Full,
        }
    }

    fn perform(self, run: &mut Run<'_>, quick: bool) -> Result<(), String> {
        match self {
            Self::Fmt => plain::fmt(run),
            Self::Tidy => crate::tidy::run(run.root()),
            Self::Clippy => plain::clippy(run),
            Self::Features => features::step(run),
            Self::Doc => plain::doc(run),
            Self::Test if quick => testing::test_changed(run),
            Self::Test => testing::test(run),
            Self::TestRelease => testing::test_release(run),
            Self::Worlds => worlds::step(run),
            Self::NoStd => no_std::step(run),
            Self::Kernel => kernel::step(run),
            Self::Platforms => platforms::step(run),
            Self::Loom => loom::step(run, Extent::Short),
            Self::Schedules => schedules::step(run),
            Self::Miri => miri::step(run),
            Self::Msrv => msrv::step(run),
            Self::Package => package::step(run),
            Self::Deny => deny::step(run),
            Self::Instructions => instructions::step(run),
            Self::Adapters => adapters::step(run),
            Self::TokioFamily => tokio_family::step(run),
            Self::Sanitizers => sanitizers::step(run),
            Self::Models => loom::step(run, Extent::Whole),
            Self::Mutants => crate::mutants::run_all(run.root()),
        }
    }
}

/// Runs `cargo xtask check`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if arguments.list {
        print!("{}", listing());
        return Ok(());
    }
    let started = Instant::now();
    let steps = selected(&arguments.only, arguments.quick);
    let quick = arguments.quick;
    let is_whole = !quick && arguments.only.is_empty();
    let plan = if is_whole {
        disk::plan(root)?
    } else {
        Plan::Roomy
    };
    let rows = perform_all(&steps, arguments.fail_fast, |step| {
        perform(root, step, quick, plan)
    });
    let longest = summary::longest(&rows);
    if !longest.is_empty() {
        println!("\nwhere the time went:\n{longest}");
    }
    println!("\n{}", summary::table(&rows, started.elapsed()));
    let finds = summary::finds(&rows);
    if !finds.is_empty() {
        println!("\n{finds}");
    }
    if is_whole {
        println!("{}", disk::account(root)?);
    }
    // Last, because the end of a long output is all that some places keep.
    let causes = summary::causes(&rows);
    if !causes.is_empty() {
        println!("\n{causes}\n");
    }
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| row.outcome.verdict == StepVerdict::Failed)
        .map(|row| &*row.step)
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("the check failed: {}", failed.join(", ")))
    }
}

fn listing() -> String {
    let mut text = String::new();
    for step in Step::value_variants() {
        let share = match step.share() {
            Share::Quick => "quick",
            Share::Full => "",
            Share::OnRequest => "only on request",
        };
        text += format!("{:<13}{:<78}{share}", step.name(), step.about()).trim_end();
        text += "\n";
    }
    text
}

/// Returns the steps to run, in the order of the list, in whatever order they were named.
fn selected(only: &[Step], quick: bool) -> Vec<Step> {
    Step::value_variants()
        .iter()
        .copied()
        .filter(|step| {
            if only.is_empty() {
                match step.share() {
                    Share::Quick => true,
                    Share::Full => !quick,
                    Share::OnRequest => false,
                }
            } else {
                only.contains(step)
            }
        })
        .collect()
}

/// Performs all `steps`, or those up to the first failure when `fail_fast`, and returns the outcome of each.
fn perform_all(
    steps: &[Step],
    fail_fast: bool,
    mut perform: impl FnMut(Step) -> (Outcome, Duration),
) -> Vec<Row> {
    let mut stopped = false;
    steps
        .iter()
        .map(|&step| {
            let (outcome, duration) = if stopped {
                (Outcome::not_run(), Duration::ZERO)
            } else {
                perform(step)
            };
            stopped |= outcome.verdict == StepVerdict::Failed && fail_fast;
            Row {
                step: step.name(),
                outcome,
                duration,
            }
        })
        .collect()
}

/// Performs one step, with a heading before it and the result after it.
fn perform(root: &Path, step: Step, quick: bool, plan: Plan) -> (Outcome, Duration) {
    println!("\n== {}: {}", step.name(), step.about());
    let started = Instant::now();
    let mut run = Run::new(root, plan);
    let mut result = step.perform(&mut run, quick);
    if plan == Plan::Lean && result.is_ok() {
        result = disk::clear_after(root, step);
    }
    let duration = started.elapsed();
    if let Err(message) = &result {
        println!("   {message}");
    }
    let outcome = run.finish(&result);
    println!(
        "== {}: {} after {:.1} s",
        step.name(),
        outcome.verdict.word(),
        duration.as_secs_f64()
    );
    (outcome, duration)
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Step, StepVerdict, listing, perform_all, selected};
    use std::time::Duration;

    #[test]
    fn the_quick_steps_are_four_and_the_long_ones_run_only_on_request() {
        assert_eq!(
            selected(&[], true),
            [Step::Fmt, Step::Tidy, Step::Clippy, Step::Test]
        );
        let full = selected(&[], false);
        assert_eq!(full.len(), 19);
        assert!(!full.contains(&Step::Mutants) && !full.contains(&Step::Models));
        assert_eq!(
            selected(&[Step::Mutants, Step::Fmt], false),
            [Step::Fmt, Step::Mutants]
        );
    }

    fn failing_at(failing: Step, fail_fast: bool) -> Vec<StepVerdict> {
        let steps = [Step::Fmt, Step::Tidy, Step::Clippy];
        let rows = perform_all(&steps, fail_fast, |step| {
            let verdict = if step == failing {
                StepVerdict::Failed
            } else {
                StepVerdict::Passed
            };
            let outcome = Outcome {
                verdict,
                ..Outcome::not_run()
            };
            (outcome, Duration::ZERO)
        });
        rows.iter().map(|row| row.outcome.verdict).collect()
    }

    #[test]
    fn a_failure_stops_the_rest_only_where_that_was_asked_for() {
        use StepVerdict::{Failed, NotRun, Passed};
        assert_eq!(failing_at(Step::Tidy, false), [Passed, Failed, Passed]);
        assert_eq!(failing_at(Step::Tidy, true), [Passed, Failed, NotRun]);
        assert_eq!(failing_at(Step::Mutants, true), [Passed, Passed, Passed]);
    }

    #[test]
    fn the_listing_names_every_step_on_a_line() {
        let listing = listing();
        assert_eq!(listing.lines().count(), 23);
        assert!(listing.contains("\ntest-release "));
    }
}
