//! The archives that would be published: complete and described.
//!
//! Cargo makes each archive and resolves it against the others. It does not build them here: it would take the sources
//! of the others from a cache of the user's that is known by path and version, and so of an earlier tree.
//!
//! Programs in C are built against one more interface, which must be the committed one: `cargo xtask abi`.

use super::run::Run;
use crate::abi;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// The files of each archive besides its code: its page, and the licences, which want to come along.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// A library for `LD_PRELOAD`, which no crate builds on.
const UNPUBLISHED: &str = "tickless-preload";
/// A library for the compiler, which the workspace does not count among those that it tests.
const MACROS: &str = "tickless-macros";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let names = names(run.workspace()?);
    for name in &names {
        let list = Invocation::cargo(&["package", "--list", "--offline", "--allow-dirty"])
            .packages(&[name]);
        let listed = list.capture(run.root())?;
        if !listed.success {
            return Err(format!("`{list}` failed: {}", listed.stderr));
        }
        missing(name, &listed.stdout)?;
    }
    run.invoke(&line(&names))?;
    match abi::missing() {
        None => abi::check(run.root(), false),
        Some(program) => {
            let reason = format!("there is no {program}");
            run.skip("the comparison of the C interface", &reason);
            Ok(())
        }
    }
}

fn names(workspace: &Workspace) -> Vec<String> {
    let published = { workspace.libraries() }.filter(|package| package.name != UNPUBLISHED);
    let macros = workspace.member(MACROS).into_iter();
    { published.chain(macros) }
        .map(|package| package.name.clone())
        .collect()
}

/// Dirty trees too: the check is for what is about to be committed.
fn line(names: &[String]) -> Invocation {
    Invocation::cargo(&["package", "--offline", "--allow-dirty", "--no-verify"]).packages(names)
}

/// Refuses an archive that lacks one of [`FILES`] or carries tests, which need the whole repository.
fn missing(name: &str, contents: &str) -> Result<(), String> {
    for file in FILES {
        if !contents.lines().any(|line| line == file) {
            return Err(format!(
                "the archive of {name} lacks {file}; put it beside its Cargo.toml"
            ));
        }
    }
    match contents.lines().find(|line| line.starts_with("tests/")) {
        Some(test) => Err(format!(
            "the archive of {name} carries {test}; exclude \"/tests\" in its Cargo.toml"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{line, missing, names};
    use crate::workspace::samples::{library, workspace};

    #[test]
    fn all_libraries_are_packaged_together() {
        let members = [library("link", json!([])), library("core", json!([]))];
        assert_eq!(
            line(&names(&workspace(&members, &[], &[]))).to_string(),
            "cargo package --offline --allow-dirty --no-verify -p link -p core"
        );
    }

    #[test]
    fn an_archive_has_its_licences_and_no_tests() {
        let whole = "Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\n";
        assert_eq!(missing("link", whole), Ok(()));
        let bare = missing("link", "Cargo.toml\nREADME.md\nLICENSE-MIT\n").unwrap_err();
        assert!(bare.contains("lacks LICENSE-APACHE"), "{bare}");
        let heavy = missing("link", &format!("{whole}tests/time/main.rs\n")).unwrap_err();
        assert!(heavy.contains("tests/time/main.rs"), "{heavy}");
    }
}
