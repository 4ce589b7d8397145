//! The steps that consist of one or two cargo commands.

use super::book;
use super::run::Run;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

pub(super) fn fmt(run: &mut Run<'_>) -> Result<(), String> {
    run.invoke(&Invocation::cargo(&["fmt", "--all", "--check"]))
}

pub(super) fn clippy(run: &mut Run<'_>) -> Result<(), String> {
    let lines = clippy_lines(run.workspace()?);
    lines.iter().try_for_each(|line| run.invoke(line))
}

/// Returns the command lines of clippy: with all features, and for the tests of libraries with features also without
/// any. [Another step](super::features) compiles the targets that are no tests with each set of features.
fn clippy_lines(workspace: &Workspace) -> Vec<Invocation> {
    let all = ["clippy", "--workspace", "--all-targets", "--all-features"];
    let mut lines = vec![Invocation::cargo(&all)];
    let with_features: Vec<&str> = workspace
        .libraries()
        .filter(|package| !package.features.is_empty())
        .map(|package| package.name.as_str())
        .collect();
    if !with_features.is_empty() {
        let none = Invocation::cargo(&[
            "clippy",
            "--no-deps",
            "--all-targets",
            "--no-default-features",
        ]);
        lines.push(none.packages(&with_features));
    }
    lines.into_iter().map(Invocation::deny_warnings).collect()
}

/// Builds the documentation once as its authors read it, once as its users do, and for libraries with features once
/// without them; then builds the book.
pub(super) fn doc(run: &mut Run<'_>) -> Result<(), String> {
    let doc = |arguments: &[&str]| {
        Invocation::cargo(&["doc", "--no-deps"])
            .args(arguments)
            .variable("RUSTDOCFLAGS", "-D warnings")
    };
    let whole = || doc(&["--workspace", "--all-features"]);
    run.invoke(&whole().arg("--document-private-items"))?;
    run.invoke(&whole())?;
    let libraries = run.workspace()?.members();
    let with_features: Vec<String> = libraries
        .filter(|package| package.is_library() && !package.features.is_empty())
        .map(|package| package.name.clone())
        .collect();
    if with_features.is_empty() {
        return book::build(run);
    }
    let names: Vec<&str> = with_features.iter().map(String::as_str).collect();
    run.invoke(&doc(&["--no-default-features"]).packages(&names))?;
    book::build(run)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::clippy_lines;
    use crate::workspace::samples::{library, workspace};

    #[test]
    fn clippy_runs_without_features_only_where_there_are_some() {
        let shown = |features| {
            let mut package = library("tickless", json!([]));
            package["features"] = features;
            let sample = workspace(&[library("tickless-link", json!([])), package], &[], &[]);
            let lines = clippy_lines(&sample);
            lines.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let all = "cargo clippy --workspace --all-targets --all-features -- -D warnings";
        let none =
            "cargo clippy --no-deps --all-targets --no-default-features -p tickless -- -D warnings";
        assert_eq!(shown(json!({})), [all]);
        assert_eq!(shown(json!({"hyper": []})), [all, none]);
    }
}
