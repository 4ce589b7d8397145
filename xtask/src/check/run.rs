//! One step while it runs: it shows each line, watches its output, and remembers what was skipped and what failed.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// The number of lines that the end of the check shows of the output of a line that failed.
const SHOWN: usize = 60;

#[derive(Debug)]
pub(super) struct Run<'r> {
    root: &'r Path,
    /// True if nothing is kept for the next change of a crate, because there is nothing of this kind.
    is_fresh: bool,
    pub(super) skips: Vec<String>,
    pub(super) finds: Vec<String>,
    /// The lines that failed, each with the end of its output.
    pub(super) causes: Vec<(String, String)>,
}

impl<'r> Run<'r> {
    pub(super) const fn new(root: &'r Path, is_fresh: bool) -> Self {
        Self {
            root,
            is_fresh,
            skips: Vec::new(),
            finds: Vec::new(),
            causes: Vec::new(),
        }
    }

    pub(super) const fn root(&self) -> &'r Path {
        self.root
    }

    pub(super) fn workspace(&self) -> Result<Workspace, String> {
        Workspace::load(self.root)
    }

    /// Shows and runs a line for the shell.
    pub(super) fn shell(&mut self, line: &str) -> Result<(), String> {
        println!("   $ {line}");
        let shell = Invocation::new("sh").args(&["-c", line]);
        self.watched(&shell)
            .map_err(|_status| format!("`{line}` failed"))
    }

    /// Shows and runs a command line.
    pub(super) fn invoke(&mut self, line: &Invocation) -> Result<(), String> {
        println!("   $ {line}");
        self.watched(line)
    }

    /// Runs a command line, and remembers its skips and, if it fails, the end of its output.
    fn watched(&mut self, line: &Invocation) -> Result<(), String> {
        let line = if self.is_fresh {
            // Nor are there backtraces to be read: what fails says in which line.
            let line = line.clone().variable("CARGO_INCREMENTAL", "0");
            line.variable("CARGO_PROFILE_DEV_DEBUG", "none")
        } else {
            line.clone()
        };
        let mut last = Output::default();
        let skips = &mut self.skips;
        let result = line.run_watched(self.root, |line| {
            if let Some((_, skip)) = line.split_once("skipped: ")
                && skip.contains(", because ")
            {
                skips.push(skip.to_owned());
            }
            last.add(line);
        });
        if result.is_err() {
            self.show_at_the_end(line.to_string(), last.text());
        }
        result
    }

    /// Shows a command line that ran for `took` in parallel with others, with its output.
    pub(super) fn show_run(&mut self, line: &Invocation, output: &str, took: Duration) {
        println!("   $ {line}\n{output}   {:.1} s", took.as_secs_f64());
    }

    pub(super) fn skip(&mut self, what: &str, reason: &str) {
        let skip = format!("{what}, because {reason}");
        println!("   skipped: {skip}");
        self.skips.push(skip);
    }

    /// Has the end of the check show the output of something that failed.
    pub(super) fn show_at_the_end(&mut self, what: String, output: String) {
        self.causes.push((what, output));
    }
}

/// The end of the output of a line, and what each failed test printed.
#[derive(Debug, Default)]
struct Output {
    failures: Vec<String>,
    is_failure: bool,
    last: VecDeque<String>,
}

impl Output {
    fn add(&mut self, line: &str) {
        // The harness lists what failed tests printed, and their names, between these two lines.
        self.is_failure =
            (self.is_failure || line == "failures:") && !line.starts_with("test result:");
        if self.is_failure && self.failures.len() < SHOWN {
            self.failures.push(line.to_owned());
        }
        self.last.push_back(line.to_owned());
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
    }

    fn text(self) -> String {
        if self.failures.is_empty() {
            return self.last.into_iter().collect::<Vec<_>>().join("\n");
        }
        self.failures.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Output, Run, SHOWN};

    #[test]
    fn skips_and_failures_are_read_from_the_output() {
        let mut run = Run::new(Path::new("."), false);
        assert_eq!(
            run.shell("echo skipped: a, because b; echo skipped: c"),
            Ok(())
        );
        assert_eq!(run.skips, ["a, because b"]);
        assert!(run.shell("echo why; exit 3").is_err());
        assert_eq!(run.causes.len(), 1);
        assert_eq!(run.causes[0].1, "why");
    }

    #[test]
    fn failed_tests_are_shown_rather_than_the_end() {
        let mut output = Output::default();
        for line in [
            "running 1 test",
            "failures:",
            "it is 2",
            "test result: FAILED",
        ] {
            output.add(line);
        }
        for _ in 0..SHOWN {
            output.add("noise");
        }
        assert_eq!(output.text(), "failures:\nit is 2");
    }
}
