//! The check of the archives that would be published: each is complete and described.
//!
//! Cargo makes each archive and resolves it against the other archives, but does not build it. To build it, cargo would
//! take the sources of the others from a cache of the user, in which path and version identify them; these could be the
//! sources of an earlier tree. So the step unpacks the archives under `target/packaged` and builds a crate there that
//! depends on them, as a user's crate would. The adapters are built without features, because the dependencies of their
//! features are large.

use std::fs;
use std::path::Path;

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// The files that each archive contains in addition to its code: its page, and the licences, which have to accompany
/// it.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// A library for `LD_PRELOAD`, on which no crate depends, and the simulator.
const UNPUBLISHED: [&str; 1] = ["tickless-preload"];
/// A library for the compiler, which the workspace does not count among the libraries that it tests.
const MACROS: &str = "tickless-macros";
/// The library with a workspace of its own, at [`ADAPTERS_MANIFEST`].
const ADAPTERS: &str = "tickless-adapters";
const ADAPTERS_MANIFEST: [&str; 2] = ["--manifest-path", "adapters/Cargo.toml"];
/// The crate whose features the consumer enables, except the private feature.
const FACADE: &str = "tickless";
const PRIVATE: &str = "internals";

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let names = names(&run.workspace()?);
    let list = ["package", "--list", "--offline", "--allow-dirty"];
    for name in &names {
        look_into(run, name, &Invocation::cargo(&list).packages(&[name]))?;
    }
    look_into(
        run,
        ADAPTERS,
        &Invocation::cargo(&list).args(&ADAPTERS_MANIFEST),
    )?;
    let target = files::target(run.root());
    run.invoke(&line(&names))?;
    run.invoke(&adapters_line(&target))?;
    build_unpacked(run, &names, &target)
}

/// Lists an archive by the command line `list`, and refuses the archive if it is incomplete.
fn look_into(run: &Run<'_>, name: &str, list: &Invocation) -> Result<(), String> {
    let listed = list.capture(run.root())?;
    if listed.result.is_err() {
        return Err(format!("`{list}` failed: {}", listed.stderr));
    }
    missing(name, &listed.stdout)
}

/// Unpacks the archives in a directory of their own, and builds a crate there that depends on all of them.
fn build_unpacked(run: &mut Run<'_>, names: &[String], target: &Path) -> Result<(), String> {
    let workspace = run.workspace()?;
    let facade = workspace.member(FACADE);
    let version = facade.map_or("", |package| &package.version).to_owned();
    let features = facade
        .into_iter()
        .flat_map(|package| package.features.keys());
    let features: Vec<String> = features.filter(|name| *name != PRIVATE).cloned().collect();
    let folder = target.join("packaged");
    let failed = |error: std::io::Error| format!("cannot fill {}: {error}", folder.display());
    // Sources of an earlier version stay nowhere; what was built stays.
    let sources = folder.join("sources");
    if sources.exists() {
        fs::remove_dir_all(&sources).map_err(failed)?;
    }
    fs::create_dir_all(sources.join("src")).map_err(failed)?;
    fs::write(sources.join("src/lib.rs"), "").map_err(failed)?;
    // The versions of others that are there already: the build asks no registry.
    fs::copy(run.root().join("Cargo.lock"), sources.join("Cargo.lock")).map_err(failed)?;
    let mut all = names.to_vec();
    all.push(ADAPTERS.to_owned());
    fs::write(
        sources.join("Cargo.toml"),
        manifest(&all, &version, &features),
    )
    .map_err(failed)?;
    for name in &all {
        let archive = target.join(format!("package/{name}-{version}.crate"));
        let unpack = [
            "-xzf".to_owned(),
            archive.display().to_string(),
            "-C".to_owned(),
        ];
        let unpack = Invocation::new("tar").args(&unpack);
        run.invoke(&unpack.arg(sources.display().to_string()))?;
    }
    let build = Invocation::cargo(&["build", "--offline", "--manifest-path"]);
    let build = build.arg(sources.join("Cargo.toml").display().to_string());
    let build = build.arg("--target-dir");
    run.invoke(&build.arg(folder.join("build").display().to_string()))
}

/// Returns the manifest of a crate that depends on the unpacked archive of each of `names`.
fn manifest(names: &[String], version: &str, features: &[String]) -> String {
    let mut needed = String::new();
    let mut patched = String::new();
    for name in names {
        let features = if name == FACADE { features } else { &[] };
        needed += &format!("{name} = {{ version = \"={version}\", features = {features:?} }}\n");
        patched += &format!("{name} = {{ path = \"{name}-{version}\" }}\n");
    }
    format!(
        "[workspace]\n\n[package]\nname = \"consumer\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{needed}\n[patch.crates-io]\n{patched}"
    )
}

fn names(workspace: &Workspace) -> Vec<String> {
    let published =
        { workspace.libraries() }.filter(|package| !UNPUBLISHED.contains(&&*package.name));
    let macros = workspace.member(MACROS).into_iter();
    { published.chain(macros) }
        .map(|package| package.name.clone())
        .collect()
}

/// Returns the command line that packages `names`. It accepts a dirty tree, because the check is for sources that are
/// about to be committed.
fn line(names: &[String]) -> Invocation {
    Invocation::cargo(&["package", "--offline", "--allow-dirty", "--no-verify"]).packages(names)
}

/// Returns the command line for the adapters. Their archive has no lock file, because that would name versions of the
/// other archives that no registry has yet.
fn adapters_line(target: &Path) -> Invocation {
    Invocation::cargo(&["package", "--offline", "--allow-dirty", "--no-verify"])
        .arg("--exclude-lockfile")
        .args(&ADAPTERS_MANIFEST)
        .arg("--target-dir")
        .arg(target.display().to_string())
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
    use super::missing;

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
