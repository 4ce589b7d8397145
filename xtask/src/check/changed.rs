//! The files that changed since the tests last passed. A quick check runs only the tests of these files.
//!
//! Digests of all files are kept in `target/xtask/tested.json`. A changed file belongs to the package in whose
//! directory it lies, and to the packages that include it in their source: the guide, for example, is included by the
//! crate whose doctests it contains. If only a file directly under `tests/` changed, the step runs that test program
//! only. The manifests of the workspace belong to all packages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::workspace::Workspace;

/// The file that holds the digests, relative to the root.
const KEPT: &str = "target/xtask/tested.json";

/// The manifests on which all packages depend.
const OF_ALL: [&str; 2] = ["Cargo.toml", "Cargo.lock"];

/// The files of the checkout, with their digests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    digests: BTreeMap<String, u64>,
    /// The paths of the files that each file includes.
    includes: BTreeMap<String, BTreeSet<String>>,
}

/// The tests of one package that have to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) package: String,
    /// The names of test programs; `None` for all tests of the package.
    pub(super) tests: Option<Vec<String>>,
}

impl Sources {
    pub(super) fn read(root: &Path, paths: &[String]) -> Result<Self, String> {
        let mut sources = Self::default();
        for path in paths {
            let bytes = fs::read(root.join(path))
                .map_err(|error| format!("cannot read {path}: {error}"))?;
            sources.add(path, &bytes);
        }
        Ok(sources)
    }

    fn add(&mut self, path: &str, bytes: &[u8]) {
        // The same in every run of the same compiler, which is all that is asked of it.
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        self.digests.insert(path.to_owned(), hasher.finish());
        if !path.ends_with(".rs") {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        for (_, rest) in text
            .match_indices("include_str!(\"")
            .map(|(at, word)| (at, &text[at + word.len()..]))
        {
            let Some((included, _)) = rest.split_once('"') else {
                continue;
            };
            if let Some(included) = resolved(path, included) {
                self.includes
                    .entry(included)
                    .or_default()
                    .insert(path.to_owned());
            }
        }
    }

    /// Reads the kept digests; returns none if the file cannot be read.
    pub(super) fn load(root: &Path) -> Self {
        let kept = fs::read_to_string(root.join(KEPT)).unwrap_or_default();
        Self {
            digests: serde_json::from_str(&kept).unwrap_or_default(),
            includes: BTreeMap::new(),
        }
    }

    /// Keeps the digests of these files, whose tests passed.
    pub(super) fn save(&self, root: &Path) -> Result<(), String> {
        let path = root.join(KEPT);
        let cannot = |error: std::io::Error| format!("cannot write {KEPT}: {error}");
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(cannot)?;
        }
        let text = serde_json::to_string(&self.digests).expect("texts and numbers");
        fs::write(path, text).map_err(cannot)
    }

    /// Returns the tests of the files that differ from `before`, in the order of the members.
    pub(super) fn changed_since(&self, before: &Self, workspace: &Workspace) -> Vec<Wanted> {
        let paths: BTreeSet<&String> = self.digests.keys().chain(before.digests.keys()).collect();
        let mut changed: BTreeSet<&str> = paths
            .into_iter()
            .filter(|path| self.digests.get(*path) != before.digests.get(*path))
            .map(String::as_str)
            .collect();
        let including: Vec<&str> = changed
            .iter()
            .filter_map(|path| self.includes.get(*path))
            .flatten()
            .map(String::as_str)
            .collect();
        changed.extend(including);
        let all = OF_ALL.iter().any(|manifest| changed.contains(manifest));
        let members = workspace.members();
        members
            .filter_map(|package| {
                let directory = workspace.directory(package);
                let own = changed
                    .iter()
                    .filter_map(|path| path.strip_prefix(&*directory));
                let tests = if all { None } else { programs(own)? };
                Some(Wanted {
                    package: package.name.clone(),
                    tests,
                })
            })
            .collect()
    }
}

/// Returns the test programs of a package in which the files at `paths` changed; `Some(None)` stands for all tests.
fn programs<'p>(paths: impl Iterator<Item = &'p str>) -> Option<Option<Vec<String>>> {
    let mut names = Vec::new();
    let mut is_empty = true;
    let mut lone = true;
    for path in paths {
        is_empty = false;
        let name = path
            .strip_prefix("tests/")
            .and_then(|file| file.strip_suffix(".rs"));
        match name {
            Some(name) if !name.contains('/') => names.push(name.to_owned()),
            _ => lone = false,
        }
    }
    (!is_empty).then_some(lone.then_some(names))
}

/// Returns the path of the file that the file at `path` includes as `included`. Both paths are relative to the root.
fn resolved(path: &str, included: &str) -> Option<String> {
    let mut resolved = PathBuf::from(path);
    resolved.pop();
    for part in included.split('/') {
        match part {
            ".." => {
                if !resolved.pop() {
                    return None;
                }
            }
            "." => {}
            name => resolved.push(name),
        }
    }
    Some(resolved.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Sources, Wanted, resolved};
    use crate::workspace::samples::{library, workspace};

    fn sources(files: &[(&str, &str)]) -> Sources {
        let mut sources = Sources::default();
        for (path, text) in files {
            sources.add(path, text.as_bytes());
        }
        sources
    }

    const BEFORE: [(&str, &str); 6] = [
        ("Cargo.lock", "1"),
        (
            "crates/one/src/lib.rs",
            "#![doc = include_str!(\"../../../docs/guide.md\")]",
        ),
        ("crates/one/tests/a.rs", ""),
        ("crates/one/tests/support/mod.rs", ""),
        ("crates/two/src/lib.rs", ""),
        ("docs/guide.md", "text"),
    ];

    /// Returns the tests that have to run after the file at `path` changed to `text`.
    fn wanted_after(path: &str, text: &str) -> Vec<Wanted> {
        let sample = workspace(
            &[library("one", json!([])), library("two", json!([]))],
            &[],
            &[],
        );
        let mut after = BEFORE.to_vec();
        after.retain(|(other, _)| *other != path);
        after.push((path, text));
        sources(&after).changed_since(&sources(&BEFORE), &sample)
    }

    fn all_of(package: &str) -> Wanted {
        Wanted {
            package: package.into(),
            tests: None,
        }
    }

    #[test]
    fn nothing_is_wanted_when_nothing_changed() {
        assert!(wanted_after("docs/guide.md", "text").is_empty());
        assert!(wanted_after("docs/other.md", "new, and included by none").is_empty());
    }

    #[test]
    fn a_changed_source_wants_its_package_and_a_manifest_all() {
        assert_eq!(wanted_after("crates/two/src/lib.rs", "x"), [all_of("two")]);
        assert_eq!(wanted_after("crates/two/src/new.rs", ""), [all_of("two")]);
        assert_eq!(
            wanted_after("Cargo.lock", "2"),
            [all_of("one"), all_of("two")]
        );
    }

    #[test]
    fn a_lone_test_file_wants_itself_and_what_tests_share_wants_all() {
        let lone = Wanted {
            tests: Some(vec!["a".into()]),
            ..all_of("one")
        };
        assert_eq!(wanted_after("crates/one/tests/a.rs", "x"), [lone]);
        assert_eq!(
            wanted_after("crates/one/tests/support/mod.rs", "x"),
            [all_of("one")]
        );
    }

    #[test]
    fn an_included_page_wants_the_package_that_includes_it() {
        assert_eq!(wanted_after("docs/guide.md", "other"), [all_of("one")]);
    }

    #[test]
    fn removed_files_are_changes_too() {
        let sample = workspace(&[library("one", json!([]))], &[], &[]);
        let after = sources(&BEFORE[..2]);
        let wanted = after.changed_since(&sources(&BEFORE), &sample);
        assert_eq!(wanted, [all_of("one")]);
    }

    #[test]
    fn paths_of_included_files_are_resolved() {
        assert_eq!(
            resolved("crates/one/src/lib.rs", "../../../docs/a.md").as_deref(),
            Some("docs/a.md")
        );
        assert_eq!(resolved("lib.rs", "../../a.md"), None);
        assert_eq!(
            resolved("src/lib.rs", "./a.md").as_deref(),
            Some("src/a.md")
        );
    }
}
