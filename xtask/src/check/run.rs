//! The context of a step: a directory in which it runs command lines, and a way to report a skip.

use std::cell::OnceCell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::disk::Plan;
use super::summary::{Cause, Outcome, StepVerdict};
use super::testing::Programs;
use crate::invocation::{Captured, Invocation};
use crate::workspace::Workspace;

/// The time without output after which a test run counts as hung. Building a crate takes minutes on a busy machine.
const SILENCE: Duration = Duration::from_secs(15 * 60);

/// One step while it runs.
#[derive(Debug)]
pub(super) struct Run<'r> {
    root: &'r Path,
    plan: Plan,
    workspace: OnceCell<Workspace>,
    skips: Vec<String>,
    spent: Vec<(String, Duration)>,
    finds: Vec<String>,
    causes: Vec<Cause>,
    did_something: bool,
}

impl<'r> Run<'r> {
    pub(super) const fn new(root: &'r Path, plan: Plan) -> Self {
        Self {
            root,
            plan,
            workspace: OnceCell::new(),
            skips: Vec::new(),
            spent: Vec::new(),
            finds: Vec::new(),
            causes: Vec::new(),
            did_something: false,
        }
    }

    pub(super) const fn root(&self) -> &'r Path {
        self.root
    }

    /// Returns cargo's description of the workspace. Cargo runs at the first call, so a step that never calls this
    /// needs no manifest.
    pub(super) fn workspace(&self) -> Result<&Workspace, String> {
        if let Some(workspace) = self.workspace.get() {
            return Ok(workspace);
        }
        let workspace = Workspace::load(self.root)?;
        Ok(self.workspace.get_or_init(|| workspace))
    }

    /// Shows and runs a command line.
    pub(super) fn invoke(&mut self, line: &Invocation) -> Result<(), String> {
        let line = &self.announce(line);
        self.timed(line, |root| line.run(root))
    }

    /// Shows and runs `lines` one after another, and `others` at the same time. The output of the others is shown after
    /// that of the lines. Each of the two stops at its first failure.
    pub(super) fn invoke_beside(
        &mut self,
        lines: &[Invocation],
        others: &[Invocation],
    ) -> Result<(), String> {
        let (root, plan) = (self.root, self.plan);
        thread::scope(|threads| {
            let beside = threads.spawn(move || capture_all(root, plan, others));
            let result = lines.iter().try_for_each(|line| self.invoke(line));
            let ended = beside
                .join()
                .map_err(|_panic| "the command lines beside could not be watched")?;
            let mut failure = Ok(());
            for (line, captured, took) in ended {
                let (output, ending) = match captured {
                    Ok(captured) => (captured.stderr + &captured.stdout, captured.result),
                    Err(message) => (String::new(), Err(message)),
                };
                self.show_run(&line, &output, took);
                if let Err(message) = ending {
                    self.show_at_the_end(line.to_string(), output);
                    failure = Err(message);
                }
            }
            result.and(failure)
        })
    }

    /// Shows a command line that ran for `took` in parallel with others, with its output.
    pub(super) fn show_run(&mut self, line: &Invocation, output: &str, took: Duration) {
        self.announce(line);
        print!("{output}");
        self.spent.push((line.to_string(), took));
    }

    /// Shows and runs a command line, and passes each line of its standard output to `watch`.
    pub(super) fn invoke_watched(
        &mut self,
        line: &Invocation,
        watch: impl FnMut(&str),
    ) -> Result<(), String> {
        let line = &self.announce(line);
        self.timed(line, |root| line.run_watched(root, watch))
    }

    /// Shows and runs a command line of `cargo test`, and records the skips of its tests and the time of each program.
    pub(super) fn invoke_tests(&mut self, line: &Invocation) -> Result<(), String> {
        self.invoke_tests_watched(line, SILENCE, |_, _| ())
    }

    /// Runs tests like [`invoke_tests`](Self::invoke_tests), and passes each line of both outputs to `watch`, with the
    /// name of the program that runs. A program that prints nothing for `silence` counts as hung.
    pub(super) fn invoke_tests_watched(
        &mut self,
        line: &Invocation,
        silence: Duration,
        mut watch: impl FnMut(&str, &str),
    ) -> Result<(), String> {
        let line = self.announce(line);
        let mut programs = Programs::new();
        let result = line.run_watched_whole(self.root, silence, |line| {
            programs.watch(line);
            watch(programs.current(), line);
        });
        let results = programs.finish();
        self.spent.extend(results.spent);
        self.skips.extend(results.skips);
        if result.is_err() {
            self.causes.extend(results.failed);
        }
        result
    }

    fn timed<T>(&mut self, line: &Invocation, perform: impl FnOnce(&Path) -> T) -> T {
        let started = Instant::now();
        let result = perform(self.root);
        self.spent.push((line.to_string(), started.elapsed()));
        result
    }

    /// Records that `what` was skipped because of `reason`.
    pub(super) fn skip(&mut self, what: &str, reason: &str) {
        let skip = format!("{what}, because {reason}");
        println!("   skipped: {skip}");
        self.skips.push(skip);
    }

    /// Records a finding that does not fail the check, and that the end of the check shows prominently.
    pub(super) fn find(&mut self, text: &str) {
        self.finds.push(text.to_owned());
    }

    /// Has the end of the check show the output of something that failed.
    pub(super) fn show_at_the_end(&mut self, what: String, output: String) {
        self.causes.push(Cause { what, output });
    }

    /// Prints a text that is neither a result nor a skip.
    pub(super) fn note(&self, text: &str) {
        println!("   {text}");
    }

    /// Returns the outcome of the step, with its skips.
    pub(super) fn finish(self, result: &Result<(), String>) -> Outcome {
        let verdict = match result {
            Err(_) => StepVerdict::Failed,
            Ok(()) if self.skips.is_empty() => StepVerdict::Passed,
            Ok(()) if self.did_something => StepVerdict::Partial,
            Ok(()) => StepVerdict::Skipped,
        };
        Outcome {
            verdict,
            skips: self.skips,
            spent: self.spent,
            finds: self.finds,
            causes: self.causes,
            failure: result.clone().err().unwrap_or_default(),
        }
    }

    /// Shows the command line in the form in which it will run.
    fn announce(&mut self, line: &Invocation) -> Invocation {
        self.did_something = true;
        let line = planned(self.plan, line);
        println!("   $ {line}");
        line
    }
}

/// Returns the command line in the form in which it runs by `plan`.
fn planned(plan: Plan, line: &Invocation) -> Invocation {
    match plan {
        Plan::Roomy => line.clone(),
        // Nor are there backtraces to be read: what fails says in which line.
        Plan::Fresh | Plan::Lean => line
            .clone()
            .variable("CARGO_INCREMENTAL", "0")
            .variable("CARGO_PROFILE_DEV_DEBUG", "none"),
    }
}

/// Runs `lines` one after another until one fails, and returns those that ran, with the time that each took.
fn capture_all(
    root: &Path,
    plan: Plan,
    lines: &[Invocation],
) -> Vec<(Invocation, Result<Captured, String>, Duration)> {
    let mut ended = Vec::new();
    for line in lines {
        let started = Instant::now();
        let captured = planned(plan, line).capture(root);
        let passed = captured
            .as_ref()
            .is_ok_and(|captured| captured.result.is_ok());
        ended.push((line.clone(), captured, started.elapsed()));
        if !passed {
            break;
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Plan, Run};
    use crate::check::summary::StepVerdict;
    use crate::invocation::Invocation;

    #[test]
    fn a_skip_is_whole_or_partial_and_a_failure_outweighs_it() {
        let new = || Run::new(Path::new("."), Plan::Roomy);
        assert_eq!(new().finish(&Ok(())).verdict, StepVerdict::Passed);

        let mut skipped = new();
        skipped.skip("miri", "there is none");
        let skipped = skipped.finish(&Ok(()));
        assert_eq!(skipped.verdict, StepVerdict::Skipped);
        assert_eq!(skipped.skips, ["miri, because there is none"]);

        let mut partial = new();
        partial.skip("the bare target", "there is none");
        partial.invoke(&Invocation::new("true")).unwrap();
        assert_eq!(partial.spent[0].0, "true");
        assert_eq!(partial.finish(&Ok(())).verdict, StepVerdict::Partial);

        let mut lean = Run::new(Path::new("."), Plan::Lean);
        lean.invoke(&Invocation::new("true")).unwrap();
        assert_eq!(
            lean.spent[0].0,
            "CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none true"
        );

        for (line, others, expected, shown) in [
            ("true", ["true", "true"], Ok(()), 3),
            (
                "true",
                ["false", "true"],
                Err("`false` failed: exit status: 1".into()),
                2,
            ),
            (
                "false",
                ["true", "true"],
                Err("`false` failed: exit status: 1".into()),
                3,
            ),
        ] {
            let mut run = new();
            let beside = run.invoke_beside(&[Invocation::new(line)], &others.map(Invocation::new));
            assert_eq!(beside, expected);
            assert_eq!(run.spent.len(), shown);
        }

        let mut failed = new();
        failed.skip("miri", "there is none");
        assert_eq!(
            failed.finish(&Err("broken".into())).verdict,
            StepVerdict::Failed
        );
    }
}
