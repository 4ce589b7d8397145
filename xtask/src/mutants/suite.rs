//! The test programs that run against each mutant.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::trial::{Outcome, Settings, try_program};
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// The packages whose tests must notice a broken rule, including packages that do not exist yet.
const PACKAGES: [&str; 4] = [
    "tickless-link",
    "tickless-core",
    "tickless-sched",
    "tickless-conformance",
];
/// The simulator, whose worlds must notice it too, in the other workspace.
const SIMULATOR: (&str, &str) = ("laboratory/Cargo.toml", "tickless-sim");
/// A host with rules of its own, such as the flush at the end of a turn, and its one test program that reaches all of
/// these rules. The host's other programs take seconds each, which the mutants of the core need not wait for.
const HOST: (&str, &str) = ("tickless", "worker");

/// All test programs of the suite, built from the copy with the switches.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) programs: Vec<Program>,
}

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The name of the program's target, for the reader.
    pub(super) name: String,
    pub(super) executable: PathBuf,
    /// The directory in which cargo would start the program.
    pub(super) directory: PathBuf,
}

/// A message of cargo about a target that it built.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Suite {
    /// Builds the test programs.
    pub(super) fn build(root: &Path) -> Result<Self, String> {
        let workspace = Workspace::load(root)?;
        let packages = packages(&workspace);
        if packages.is_empty() {
            return Err("no package of the workspace holds the suite".into());
        }
        let mut programs = build(root, |line| line.packages(&packages))?;
        let (manifest, package) = SIMULATOR;
        if root.join(manifest).exists() {
            programs.extend(build(root, |line| {
                line.args(&["--manifest-path", manifest, "-p", package])
            })?);
        }
        let (package, test) = HOST;
        if workspace.members().any(|member| member.name == package) {
            // Last, because it waits for real time.
            programs.extend(build(root, |line| {
                line.args(&["-p", package, "--test", test])
            })?);
        }
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

/// Builds the test programs that `select` names.
fn build(
    root: &Path,
    select: impl FnOnce(Invocation) -> Invocation,
) -> Result<Vec<Program>, String> {
    let line = Invocation::cargo(&["test", "--no-run", "--all-features"])
        .args(&["--message-format", "json-render-diagnostics"]);
    let line = select(line).args(&["--target-dir", "../build"]);
    println!("   $ {line}");
    let captured = line.capture(root)?;
    if captured.result.is_err() {
        return Err(format!("the suite does not build:\n{}", captured.stderr));
    }
    programs(&captured.stdout)
}

fn packages(workspace: &Workspace) -> Vec<&str> {
    workspace
        .members()
        .filter(|package| PACKAGES.contains(&package.name.as_str()))
        .map(|package| package.name.as_str())
        .collect()
}

/// Returns the test programs in the messages of cargo; each message is one line.
fn programs(messages: &str) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line)
            .map_err(|error| format!("a message of cargo is not understood: {error}"))?;
        if let Some(program) = message.program() {
            programs.push(program);
        }
    }
    Ok(programs)
}

impl Message {
    fn program(self) -> Option<Program> {
        let is_test = self.reason == "compiler-artifact" && self.profile?.test;
        let mut directory = self.manifest_path?;
        directory.pop();
        Some(Program {
            name: self.target?.name,
            executable: self.executable.filter(|_| is_test)?,
            directory,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Program, programs};

    #[test]
    fn only_test_programs_are_taken_from_the_messages() {
        let artifact = |test: bool, executable| {
            json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/a/Cargo.toml",
                "target": {"name": "a", "kind": ["lib"]}, "profile": {"test": test},
                "executable": executable,
            })
        };
        let messages = [
            artifact(true, json!("/t/a-1")),
            artifact(false, json!("/t/a")),
            artifact(true, json!(null)),
            json!({"reason": "build-finished", "success": true}),
        ];
        let text: String = messages.map(|message| format!("{message}\n")).concat();
        assert_eq!(
            programs(&format!("not json\n{text}")).unwrap(),
            [Program {
                name: "a".into(),
                executable: "/t/a-1".into(),
                directory: "/w/crates/a".into(),
            }]
        );
    }
}
