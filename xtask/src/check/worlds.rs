//! The worlds: draws that are always the same, none of which may break a promise, and fresh ones, whose breaks are
//! told.
//!
//! A check that fails now and then by itself teaches to run it again. So a rare find in a fresh draw fails nothing: it
//! stands at the end of the check, large, and is everybody's next task.

use super::run::Run;
use crate::invocation::Invocation;

/// Seeds that must be clean.
const FIXED: &str = "1000";
/// For how long fresh ones are tried.
const FRESH: &str = "30s";
/// Where scenarios that break a promise are kept.
const KEPT: &str = "target/worlds";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
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

/// In the profile of the step before, which built most of it. Without features: the simulator has none, and those of
/// the command bring crates along that take longer to build than the worlds to run.
fn fuzz(arguments: &[&str]) -> Invocation {
    let run = ["run", "--quiet", "--profile", "testrelease"];
    Invocation::cargo(&run)
        .packages(&["tickless-lab"])
        .args(&["--bin", "tickless", "--"])
        .args(&["sim", "fuzz"])
        .args(arguments)
}

/// What is told of the hunt at the end: the groups, how to see each again, and the count.
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
    use super::{Found, fuzz};

    #[test]
    fn the_command_lines_can_be_typed() {
        assert_eq!(
            fuzz(&["--seeds", "9"]).to_string(),
            "cargo run --quiet --profile testrelease -p tickless-lab --bin tickless -- sim fuzz \
             --seeds 9"
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
