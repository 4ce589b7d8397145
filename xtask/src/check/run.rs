//! The context of a step: a directory in which it runs command lines, and a way to report a skip.

use std::cell::OnceCell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::disk::Plan;
use super::summary::{Cause, Outcome, StepVerdict};
use super::testing::Programs;
use crate::invocation::Invocation;
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

    /// Shows two command lines and runs them at the same time; the output of the second is shown after that of the
    /// first.
    pub(super) fn invoke_both(
        &mut self,
        line: &Invocation,
        other: &Invocation,
    ) -> Result<(), String> {
        let (line, other) = (&self.announce(line), &self.announce(other));
        let root = self.root;
        thread::scope(|threads| {
            let beside = threads.spawn(|| {
                let started = Instant::now();
                (other.capture(root), started.elapsed())
            });
            let result = self.timed(line, |root| line.run(root));
            let (captured, took) = beside
                .join()
                .map_err(|_panic| format!("`{other}` could not be watched"))?;
            self.spent.push((other.to_string(), took));
            let captured = captured?;
            let output = captured.stderr + &captured.stdout;
            print!("{output}");
            if captured.result.is_err() {
                self.show_at_the_end(other.to_string(), output);
                return result.and(Err(format!("`{other}` failed")));
            }
            result
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
        let line = match self.plan {
            Plan::Roomy => line.clone(),
            // Nor are there backtraces to be read: what fails says in which line.
            Plan::Fresh | Plan::Lean => line
                .clone()
                .variable("CARGO_INCREMENTAL", "0")
                .variable("CARGO_PROFILE_DEV_DEBUG", "none"),
        };
        println!("   $ {line}");
        line
    }
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

        for (line, other, expected) in [
            ("true", "true", Ok(())),
            ("true", "false", Err("`false` failed".into())),
            (
                "false",
                "true",
                Err("`false` failed: exit status: 1".into()),
            ),
        ] {
            let both = new().invoke_both(&Invocation::new(line), &Invocation::new(other));
            assert_eq!(both, expected);
        }

        let mut failed = new();
        failed.skip("miri", "there is none");
        assert_eq!(
            failed.finish(&Err("broken".into())).verdict,
            StepVerdict::Failed
        );
    }
}
