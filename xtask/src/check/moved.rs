//! The test suites of published crates, which a change of imports moves to this library.
//!
//! This repository contains no source of these crates. Cargo fetches each crate, as for any program that depends on it.
//! The step copies the sources to `target/moved`, replaces `tokio::time` by `tickless::time` in sources and tests
//! alike, and runs the crate's own tests. If cargo cannot fetch a crate, the step names it as skipped.
//!
//! The tests pause tokio's clock by `tickless::time::pause`, which needs the feature `tokio-test-util`.

use std::fs;
use std::path::{Path, PathBuf};

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// A suite to move.
struct Suite {
    package: &'static str,
    version: &'static str,
    /// The text that is replaced in the sources and tests, and its replacement.
    replaced: (&'static str, &'static str),
    /// The least number of files that have to change: a suite in which nothing is replaced would prove nothing.
    least: usize,
}

const SUITES: [Suite; 1] = [Suite {
    package: "tower",
    version: "0.5.3",
    replaced: ("tokio::time", "tickless::time"),
    least: 10,
}];

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    for suite in &SUITES {
        let (package, version) = (suite.package, suite.version);
        let source = match fetched(run.root(), package, version) {
            Ok(source) => source,
            Err(reason) => {
                run.skip(&format!("the suite of {package} {version}"), &reason);
                continue;
            }
        };
        let place = place(run.root(), suite);
        let changed = moved(run.root(), &source, &place, suite)
            .map_err(|error| format!("{}: {error}", place.display()))?;
        run.note(&format!("{changed} files of {package} {version} moved"));
        if changed < suite.least {
            return Err(format!(
                "only {changed} files of {package} had something to move"
            ));
        }
        let manifest = place.join("Cargo.toml").display().to_string();
        let target = files::target(run.root()).display().to_string();
        let test = Invocation::cargo(&["test", "--all-features", "--lib", "--tests"]);
        let test = test.args(&["--manifest-path", &manifest, "--target-dir", &target]);
        run.invoke(&test)?;
    }
    Ok(())
}

/// Returns the directory of the moved sources.
fn place(root: &Path, suite: &Suite) -> PathBuf {
    root.join("target/moved")
        .join(format!("{}-{}", suite.package, suite.version))
}

/// Fetches `package` by cargo, and returns its directory, or the reason why it cannot be fetched.
pub(super) fn fetched(root: &Path, package: &str, version: &str) -> Result<PathBuf, String> {
    let wanting = root.join("target/moved").join(format!("wants-{package}"));
    let manifest = format!(
        "[package]\nname = \"wants\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {package} = \"={version}\"\n"
    );
    fs::create_dir_all(wanting.join("src"))
        .and_then(|()| fs::write(wanting.join("Cargo.toml"), manifest))
        .and_then(|()| fs::write(wanting.join("src/lib.rs"), ""))
        .map_err(|error| format!("{}: {error}", wanting.display()))?;
    let metadata = Invocation::cargo(&["metadata", "--format-version", "1"]);
    let captured = metadata.capture(&wanting)?;
    if captured.result.is_err() {
        return Err(format!(
            "cargo cannot fetch it: {}",
            captured.last_complaint()
        ));
    }
    let workspace = Workspace::parse(&captured.stdout)?;
    { workspace.packages.iter() }
        .find(|found| found.name == package)
        .map(|found| found.directory().to_owned())
        .ok_or_else(|| format!("cargo does not know {package}"))
}

/// Copies the files of `suite` from `source` to `place` with the replacement; returns the number of files that changed.
fn moved(root: &Path, source: &Path, place: &Path, suite: &Suite) -> std::io::Result<usize> {
    let mut changed = 0;
    for directory in ["src", "tests"] {
        let there = place.join(directory);
        if there.exists() {
            fs::remove_dir_all(&there)?;
        }
        changed += copy(&source.join(directory), &there, suite.replaced)?;
    }
    // Cargo.toml, and what sources include: a page, mostly.
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let name = entry.file_name();
        // Of the examples and of cargo itself nothing is needed.
        if entry.file_type()?.is_file() && name != "Cargo.lock" && name != "Cargo.toml.orig" {
            fs::copy(entry.path(), place.join(&name))?;
        }
    }
    let library = root.join("crates/tickless");
    let manifest = place.join("Cargo.toml");
    let mut text = fs::read_to_string(&manifest)?;
    text.push_str(&format!(
        "\n[workspace]\n\n[dependencies.tickless]\npath = {library:?}\nfeatures = [\"tokio-test-util\"]\n"
    ));
    fs::write(manifest, text)?;
    Ok(changed)
}

/// Copies a directory and everything below it with the replacement; returns the number of files that changed.
fn copy(from: &Path, to: &Path, replaced: (&str, &str)) -> std::io::Result<usize> {
    fs::create_dir_all(to)?;
    let mut changed = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            changed += copy(&path, &target, replaced)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let text_moved = text.replace(replaced.0, replaced.1);
            changed += usize::from(text_moved != text);
            fs::write(&target, text_moved)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(changed)
}
