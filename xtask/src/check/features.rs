//! The feature matrix: the list of the feature sets that are built.
//!
//! All combinations would be too many, and a build with all features hides a feature that forgot to enable another one.
//! So a person chooses the sets that matter, one line for each package. The step compares the sets with the output of
//! `cargo metadata`: a feature that no set contains is an error, and so is a line about a feature or package that no
//! longer exists.

use std::collections::BTreeSet;

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// The feature sets with which one package is built, in addition to the build without features.
struct Row {
    package: &'static str,
    sets: &'static [&'static [&'static str]],
}

/// The package with most sets.
const LIBRARY: &str = "tickless";

/// The lines of the matrix, one for each package that has features; `default` is a feature like any other.
///
/// The libraries are also built alone without features, and need no line for that build.
const MATRIX: &[Row] = &[
    Row {
        package: "tickless",
        sets: &[
            &["default"],
            &["executor"],
            &["executor", "hyper", "stream", "tokio"],
            &["hyper"],
            &["internals"],
            &["macros"],
            &["metrics"],
            &["portable"],
            &["stream"],
            &["tokio"],
            &["tokio-test-util"],
            &["tracepoints"],
            &["portable", "tracepoints"],
            &["tracing"],
        ],
    },
    // Without it what serves far timers must not be left over.
    Row {
        package: "tickless-core",
        sets: &[&["default", "far-wheel"]],
    },
    // Without `full` it is what `cargo tickless` begins with.
    Row {
        package: "tickless-lab",
        sets: &[&["default", "full"], &["c-peers"]],
    },
    Row {
        package: "tickless-peers",
        sets: &[&["c-peers"]],
    },
];

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let workspace = run.workspace()?;
    let faults = faults(workspace, MATRIX);
    if !faults.is_empty() {
        return Err(faults.join("\n   "));
    }
    // Most sets build one crate, on one processor. So the sets of the library are built beside those of all others, in
    // a directory of their own, because cargo lets no two builds into one directory.
    let place = files::target(run.root()).join("features");
    let place = place.display().to_string();
    let all = lines(workspace, MATRIX, &["--target-dir", &place]);
    let (library, others) = all.into_iter().partition(|(name, _)| name == LIBRARY);
    run.invoke_beside(&unnamed(others), &unnamed(library))
}

/// Returns the command lines without the names of their packages.
fn unnamed(lines: Vec<(String, Invocation)>) -> Vec<Invocation> {
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns the differences between the matrix and the workspace.
fn faults(workspace: &Workspace, matrix: &[Row]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in workspace.members() {
        let covered: BTreeSet<&str> = matrix
            .iter()
            .filter(|row| row.package == package.name)
            .flat_map(|row| row.sets.iter().copied().flatten().copied())
            .collect();
        let existing: BTreeSet<&str> = package.features.keys().map(String::as_str).collect();
        for feature in existing.difference(&covered) {
            faults.push(format!(
                "the feature {feature} of {} is in no set of the matrix (xtask/src/check/features.rs)",
                package.name
            ));
        }
        for feature in covered.difference(&existing) {
            faults.push(format!(
                "the matrix names the feature {feature}, which {} does not have",
                package.name
            ));
        }
    }
    for row in matrix {
        if workspace.member(row.package).is_none() {
            faults.push(format!(
                "the matrix names {}, which is no package of the workspace",
                row.package
            ));
        }
    }
    faults
}

/// Returns the builds, each with its package: each library and each package of the matrix without features, then set by
/// set. Those of the [`LIBRARY`] have the arguments `elsewhere`.
///
/// Each command builds one package: features of packages that are built together add up, and one package would hide
/// what another lacks. The lints are on, because code that only one feature uses is unused without that feature.
fn lines(workspace: &Workspace, matrix: &[Row], elsewhere: &[&str]) -> Vec<(String, Invocation)> {
    let libraries = workspace.libraries().map(|package| package.name.as_str());
    let names: BTreeSet<&str> = libraries
        .chain(matrix.iter().map(|row| row.package))
        .collect();
    let mut lines = Vec::new();
    for name in names {
        let build = || {
            let line =
                Invocation::cargo(&["clippy", "--no-deps", "-p", name, "--no-default-features"]);
            let place = if name == LIBRARY { elsewhere } else { &[] };
            line.args(place)
        };
        let mut add = |line: Invocation| lines.push((name.to_owned(), line.deny_warnings()));
        add(build());
        let rows = matrix.iter().filter(|row| row.package == name);
        for set in rows.flat_map(|row| row.sets) {
            add(build().arg("--features").arg(set.join(",")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Row, faults, lines};
    use crate::workspace::Workspace;
    use crate::workspace::samples::{library, workspace};

    fn sample() -> Workspace {
        let mut package = library("tickless", json!([]));
        package["features"] = json!({"hyper": [], "time": []});
        workspace(&[library("tickless-link", json!([])), package], &[], &[])
    }

    #[test]
    fn a_complete_matrix_has_no_faults() {
        let matrix = [Row {
            package: "tickless",
            sets: &[&["hyper"], &["hyper", "time"]],
        }];
        assert_eq!(faults(&sample(), &matrix), Vec::<String>::new());
    }

    #[test]
    fn a_feature_without_a_set_is_a_fault() {
        let matrix = [Row {
            package: "tickless",
            sets: &[&["hyper"]],
        }];
        let found = faults(&sample(), &matrix);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("the feature time of tickless is in no set"));
        assert_eq!(faults(&sample(), &[]).len(), 2);
    }

    #[test]
    fn a_set_or_a_package_that_is_gone_is_a_fault() {
        let matrix = [
            Row {
                package: "tickless",
                sets: &[&["hyper", "time", "gone"]],
            },
            Row {
                package: "tickless-gone",
                sets: &[],
            },
        ];
        let found = faults(&sample(), &matrix);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("the feature gone"));
        assert!(found[1].contains("tickless-gone"));
    }

    #[test]
    fn each_library_is_built_bare_and_with_each_set() {
        let matrix = [Row {
            package: "tickless",
            sets: &[&["hyper", "time"]],
        }];
        let shown: Vec<String> = lines(&sample(), &matrix, &["--target-dir", "it"])
            .iter()
            .map(|(_, line)| line.to_string())
            .collect();
        assert_eq!(
            shown,
            [
                "cargo clippy --no-deps -p tickless --no-default-features --target-dir it -- -D warnings",
                "cargo clippy --no-deps -p tickless --no-default-features --target-dir it --features hyper,time \
                 -- -D warnings",
                "cargo clippy --no-deps -p tickless-link --no-default-features -- -D warnings",
            ]
        );
    }
}
