//! The check of the worlds, which are random scenarios. A fixed set of worlds must break no promise; in addition the
//! step draws fresh worlds, and reports each promise that they break.
//!
//! A check that fails now and then by itself teaches people only to run it again. So a rare find in a fresh world does
//! not fail the check: the end of the check shows it prominently, and it is the next task of every developer.

use std::path::Path;

use super::run::Run;
use super::testing;
use crate::files;
use crate::invocation::Invocation;

/// The number of worlds that must break no promise.
const FIXED: &str = "1000";
/// The time for which the step tries fresh worlds.
const FRESH: &str = "20s";
/// The directory that keeps the scenarios that break a promise.
const KEPT: &str = "target/worlds";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    run.invoke(&testing::whole(run.workspace()?).args(&BUILD))?;
    let command = files::target(run.root()).join("debug/tickless");
    let command = command.strip_prefix(run.root()).unwrap_or(&command);
    let fuzz = |arguments| fuzz(command, arguments);
    run.invoke(&fuzz(&["--seeds", FIXED]))?;
    let mut found = Found::default();
    let fresh = fuzz(&["--for", FRESH, "--from", "fresh", "--save", KEPT]);
    let result = run.invoke_watched(&fresh, |line| found.watch(line));
    match result {
        Err(message) if found.lines.is_empty() => Err(message),
        Err(_) => {
            run.find(&format!(
                "fresh worlds broke promises; the scenarios are in {KEPT}:\n{}",
                found.lines.join("\n")
            ));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// The arguments that build the command `tickless` as a part of its tests, with the features of the test step.
///
/// `cargo run` would choose other features for the dependencies of the command and build them once more, which takes
/// longer than the worlds. The worlds take the same time as in an optimised build, because the code that executes them
/// is optimised in test builds too.
const BUILD: [&str; 3] = ["--test", "sim", "--no-run"];

fn fuzz(command: &Path, arguments: &[&str]) -> Invocation {
    Invocation::new(command.display().to_string())
        .args(&["sim", "fuzz"])
        .args(arguments)
}

/// The lines about the hunt that the end of the check shows: the groups of finds, the commands that repeat them, and
/// the count.
#[derive(Debug, Default)]
struct Found {
    lines: Vec<String>,
    is_group: bool,
}

impl Found {
    fn watch(&mut self, line: &str) {
        self.is_group = !line.is_empty() && (self.is_group || line.starts_with("broken  "));
        let replays = line
            .trim_start()
            .starts_with("tickless sim fuzz --seeds 1 ");
        if self.is_group || replays || line.ends_with(" FAILED") {
            self.lines.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Found, fuzz};

    #[test]
    fn the_command_lines_can_be_typed() {
        assert_eq!(
            fuzz(Path::new("target/debug/tickless"), &["--seeds", "9"]).to_string(),
            "target/debug/tickless sim fuzz --seeds 9"
        );
    }

    #[test]
    fn groups_replays_and_the_count_are_told_again() {
        let output = "\
tickless 0.1.0, seeds 7 on, for 60 s at most

Seed 9: covered
  name = \"draw-9\"
The same again:
  tickless sim fuzz --seeds 1 --from 9

drawn    seeds
profile      3

broken   machine  seeds  which
covered  a        1      9
The scenarios are in target/worlds.

3 seeds tried from 7: 1 FAILED";
        let mut found = Found::default();
        output.lines().for_each(|line| found.watch(line));
        assert_eq!(
            found.lines,
            [
                "  tickless sim fuzz --seeds 1 --from 9",
                "broken   machine  seeds  which",
                "covered  a        1      9",
                "The scenarios are in target/worlds.",
                "3 seeds tried from 7: 1 FAILED"
            ]
        );
        let mut kept = Found::default();
        let kept_line = "3 seeds tried from 7: every promise was kept";
        kept.watch(kept_line);
        assert!(kept.lines.is_empty());
    }
}
