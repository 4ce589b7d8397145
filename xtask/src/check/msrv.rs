//! The check with the oldest compiler that can build the library, according to the library's promise.

use std::collections::BTreeMap;

use super::run::Run;
use crate::invocation::Invocation;
use crate::toolchain;
use crate::workspace::Workspace;

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    for (version, packages) in promises(run.workspace()?)? {
        match toolchain::ensure_toolchain(run.root(), &version) {
            Ok(()) => run.invoke(&line(&version, &packages))?,
            Err(reason) => run.skip(&format!("msrv {version}"), &reason),
        }
    }
    Ok(())
}

fn line(version: &str, packages: &[String]) -> Invocation {
    Invocation::cargo_of(version, &["check", "--lib", "--all-features"])
        .packages(packages)
        .args(&["--target-dir", "target/msrv"])
}

/// Returns the compiler versions that the libraries promise, each with the libraries that promise it.
fn promises(workspace: &Workspace) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut promises = BTreeMap::<String, Vec<String>>::new();
    for package in workspace.libraries() {
        let version = package
            .rust_version
            .clone()
            .ok_or_else(|| format!("{} promises no rust-version", package.name))?;
        promises
            .entry(version)
            .or_default()
            .push(package.name.clone());
    }
    Ok(promises)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{line, promises};
    use crate::workspace::samples::{library, workspace};

    #[test]
    fn libraries_with_the_same_promise_are_built_together() {
        let mut newer = library("capi", json!([]));
        newer["rust_version"] = json!("1.90");
        let members = [
            library("link", json!([])),
            library("core", json!([])),
            newer,
        ];
        let found = promises(&workspace(&members, &[], &[])).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            line("1.88", &found["1.88"]).to_string(),
            "cargo +1.88 check --lib --all-features -p link -p core --target-dir target/msrv"
        );
    }

    #[test]
    fn a_library_without_a_promise_is_an_error() {
        let mut vague = library("link", json!([]));
        vague["rust_version"] = json!(null);
        let found = promises(&workspace(&[vague], &[], &[]));
        assert_eq!(found.unwrap_err(), "link promises no rust-version");
    }
}
