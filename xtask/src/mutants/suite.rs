//! The test programs that run against each mutant.

use std::path::Path;

use super::trial::{Outcome, Settings, try_program};
use crate::invocation::Invocation;
use crate::workspace::Program;

/// The packages whose tests must notice a broken rule.
const PACKAGES: [&str; 8] = [
    "-p",
    "tickless-link",
    "-p",
    "tickless-core",
    "-p",
    "tickless-sched",
    "-p",
    "tickless-conformance",
];
/// The simulator, whose worlds must notice it too, in the other workspace.
const SIMULATOR: [&str; 4] = [
    "--manifest-path",
    "laboratory/Cargo.toml",
    "-p",
    "tickless-sim",
];
/// A host with rules of its own, such as the flush at the end of a turn and the attachment of runtimes, and its test
/// programs that reach these rules. The host's other programs take seconds each, which the mutants of the core need not
/// wait for.
#[rustfmt::skip]
const HOST: [&str; 7] = ["-p", "tickless", "--lib", "--test", "worker", "--test", "attached_by_itself"];

/// All test programs of the suite, built from the copy with the switches.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) programs: Vec<Program>,
}

impl Suite {
    pub(super) fn build(root: &Path) -> Result<Self, String> {
        let mut programs = build(root, &PACKAGES)?;
        programs.extend(build(root, &SIMULATOR)?);
        // Last, because it waits for real time.
        programs.extend(build(root, &HOST)?);
        if programs.is_empty() {
            return Err("the suite has no test programs".into());
        }
        Ok(Self { programs })
    }

    /// Runs the programs one after the other, up to the first failure.
    pub(super) fn run(&self, settings: &Settings<'_>) -> Result<Outcome, String> {
        for program in &self.programs {
            let outcome = try_program(program, settings)?;
            if outcome != Outcome::Survived {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Survived)
    }
}

fn build(root: &Path, selection: &[&str]) -> Result<Vec<Program>, String> {
    let line = Invocation::cargo(&["test", "--no-run", "--all-features"])
        .args(&["--message-format", "json-render-diagnostics"])
        .args(selection)
        .args(&["--target-dir", "../build"]);
    println!("   $ {line}");
    let captured = line.capture(root)?;
    if captured.result.is_err() {
        return Err(format!("the suite does not build:\n{}", captured.stderr));
    }
    Ok(captured.stdout.lines().filter_map(Program::of).collect())
}
